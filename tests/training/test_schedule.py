"""Every schedule warms up to its peak and then falls by its own formula."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import registry
from regard.config import Recipe, apply_overrides, recipe_from_toml, to_toml
from regard.errors import UserError
from regard.training.listener import Quiet
from tests.training.toys import SETTINGS, Recorder, maker

KINDS = registry.kinds("training/schedule")


def curve(kind: str | dict[str, Any], warmup: int = 100, steps: int = 1000) -> list[float]:
    at = registry.build("training/schedule", kind, learning_rate=0.01, warmup=warmup, steps=steps)
    return [at(step) for step in range(1, steps + 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_warms_up_linearly_to_the_peak_and_never_rises_again(kind: str) -> None:
    rates = curve(kind)
    assert rates[:100] == pytest.approx([0.01 * step / 100 for step in range(1, 101)])
    assert all(later <= earlier for earlier, later in zip(rates[99:], rates[100:], strict=False))
    assert min(rates) > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("warmup", [0, 1, 1000, 5000])
def test_any_warmup_gives_rates_within_the_peak(kind: str, warmup: int) -> None:
    assert all(0 < rate <= 0.01 for rate in curve(kind, warmup))


def test_formulas() -> None:
    assert {"constant", "cosine", "inverse_square_root"} <= set(KINDS)
    assert curve("constant")[-1] == 0.01
    assert curve("inverse_square_root")[399] == pytest.approx(0.01 / 2)
    half_way = curve("cosine")[549]
    assert half_way == pytest.approx(0.01 * (0.1 + 0.9 * (1 + math.cos(math.pi / 2)) / 2))
    assert curve("cosine")[-1] == pytest.approx(0.001)
    width, warmup, step = 512, 4000, 9000  # the paper's own formula, at the peak it implies
    paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
    ours = registry.build(
        "training/schedule", "inverse_square_root", learning_rate=(width * warmup) ** -0.5, warmup=warmup, steps=1
    )
    assert ours(step) == pytest.approx(paper)


# --------------------------------------------------------------------------------------------- keywords of a schedule


def test_a_table_gives_a_schedule_keywords_of_its_own() -> None:
    assert curve({"kind": "cosine", "floor": 0.5})[-1] == pytest.approx(0.005)
    assert curve({"kind": "cosine", "floor": 0})[-1] == pytest.approx(0, abs=1e-12)
    assert curve({"kind": "cosine"}) == curve("cosine")


def test_a_trainer_follows_the_table(tmp_path: Path) -> None:
    told = Recorder()
    maker(schedule={"kind": "cosine", "floor": 0.25})(tmp_path, told).fit()
    assert told.logs[24].learning_rate == pytest.approx(0.25 * SETTINGS.learning_rate)


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ('schedule = "cosine"', "cosine"),
        ('schedule = {kind = "cosine", floor = 0.2}', {"kind": "cosine", "floor": 0.2}),
        ('[training.schedule]\nkind = "constant"', {"kind": "constant"}),
    ],
)
def test_a_recipe_has_a_name_or_a_table_and_gives_it_back(text: str, schedule: Any) -> None:
    recipe = recipe_from_toml(text if text.startswith("[") else f"[training]\n{text}")
    assert recipe.training.schedule == schedule
    assert recipe_from_toml(to_toml(recipe)).training.schedule == schedule


@pytest.mark.parametrize("first", ["training.schedule=cosine", "training.schedule={kind='cosine'}"])
def test_an_override_adds_a_keyword_to_a_name(first: str) -> None:
    recipe = apply_overrides(apply_overrides(Recipe(), [first]), ["training.schedule.floor=0.3"])
    assert recipe.training.schedule == {"kind": "cosine", "floor": 0.3}
    assert apply_overrides(Recipe(), [first, "training.schedule.floor=0.3"]) == recipe


WRONG = [
    ("{kind='cosin'}", "training.schedule.kind: no kind 'cosin'; did you mean 'cosine'?"),
    ("{kind='cosine', flor=0.2}", "training.schedule: cosine takes no 'flor'; did you mean 'floor'?"),
    ("{kind='constant', floor=0.2}", "training.schedule: constant takes no 'floor'"),
    ("{kind='cosine', floor=2}", "training.schedule.floor: wants a number from 0 to 1, given 2"),
    ("{kind='cosine', warmup=5}", "training.schedule: cosine takes no 'warmup'"),
    ("{floor=0.2}", "training.schedule: no kind ''"),
]


@pytest.mark.parametrize(("value", "message"), WRONG)
def test_a_wrong_table_is_refused_before_any_work(value: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        regard.train("sst2-lstm", f"training.schedule={value}", tiny=True, out=tmp_path / "run", quiet=True)
    assert str(refused.value).startswith(message)
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_may_change_its_schedule_but_not_to_a_wrong_one(tmp_path: Path) -> None:
    base = apply_overrides(Recipe(), ["task=classify", "training.steps=2", "training.device=cpu"])
    base = replace(base, data=replace(base.data, format={"kind": "made_reviews", "count": 40}))
    base = replace(base, model={"kind": "classifier", "stem": "tokens", "encoder": {"kind": "recurrent"}, "width": 8})
    regard.train(base, out=tmp_path / "run", quiet=True)
    before = (tmp_path / "run" / "recipe.toml").read_bytes()
    with pytest.raises(UserError, match="cosine takes no 'flor'; did you mean 'floor'"):
        regard.train(None, "training.schedule={kind='cosine', flor=1}", out=tmp_path / "run", resume=True, quiet=True)
    assert (tmp_path / "run" / "recipe.toml").read_bytes() == before
    changes = ["training.schedule={kind='cosine', floor=0.5}", "training.steps=3"]
    assert regard.train(None, *changes, out=tmp_path / "run", resume=True, report=Quiet()).reason == "steps"


ELSEWHERE = """
__all__ = ["triangle"]

def triangle(learning_rate: float, steps: int, height: float = 1.0):
    return lambda step: learning_rate * height * (1 - step / (steps + 1))
"""
TRAIN = """
import regard
changes = ["training.schedule={kind='triangle', height=0.5}", "training.learning_rate=0.01", "training.steps=3"]
changes += ["training.log_every=1", "training.device=cpu", "training.average=1"]
run = regard.train("sst2-lstm", *changes, tiny=True, out="run", quiet=False)
try:
    regard.train("sst2-lstm", "training.schedule={kind='triangle', heigth=0.5}", tiny=True, out="other", quiet=True)
except regard.UserError as error:
    print(error)
"""


def test_another_package_adds_a_schedule_with_keywords(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    info = tmp_path / "elsewhere-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[regard.training.schedule]\ntriangle = elsewhere\n")
    path = os.pathsep.join([str(tmp_path), str(Path(regard.__file__).parent.parent)])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", TRAIN], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "training.schedule: triangle takes no 'heigth'; did you mean 'height'?\n"
    rates = [line.split("lr ")[1].split()[0] for line in done.stderr.splitlines() if "  lr " in line]
    assert rates == ["3.75e-03", "2.50e-03", "1.25e-03"]
