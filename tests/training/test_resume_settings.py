"""Settings of a resumed run: what may change is applied and saved, what may not is refused before anything is written;
a training that fails before its first step leaves no folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import regard
from regard.config import Recipe, apply_overrides, read_recipe
from regard.errors import UserError


def recipe(data: Path) -> Recipe:
    for side, words in (("fr", "le mot {} vaut {}\n"), ("en", "the word {} is worth {}\n")):
        (data / f"train.{side}").write_text("".join(words.format(i, 1000 + i) for i in range(100)))
    found = Recipe()
    found.data.root, found.data.source, found.data.target = str(data), ["train.fr"], ["train.en"]
    short = ["training.steps=2", "training.warmup=1", "training.device=cpu", "data.workers=0", "tokenizer.kind=word"]
    return apply_overrides(found, [*short, "model.width=8", "model.heads=2", "model.layers=1"])


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun")
    regard.train(recipe(folder), folder=folder / "run", quiet=True)
    return folder / "run"


@pytest.fixture
def run(begun: Path, tmp_path: Path) -> Path:
    shutil.copytree(begun, tmp_path / "run")
    return tmp_path / "run"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


FIXED = [
    "model.encoder.layers=2",
    "model.width=16",
    "model.kind=language_model",
    "tokenizer.size=99",
    "tokenizer.kind=character",
    "input.size=8",
    "task=tag",
    "seed=2",
    "data.max_length=50",
    "data.hold_out_test=5",
    "data.format.kind=made_algorithm",
    "training.batch_tokens=100",
    "training.ema=0.9",
    "training.from=fr-en",
]


@pytest.mark.parametrize("setting", FIXED)
def test_what_defines_a_run_is_refused_by_name_and_nothing_is_written(setting: str, run: Path) -> None:
    before = contents(run)
    with pytest.raises(UserError) as refused:
        regard.train(None, "training.steps=3", setting, folder=run, resume=True, quiet=True)
    assert str(refused.value).startswith(setting.partition("=")[0]) and "\n" not in str(refused.value)
    assert contents(run) == before


@pytest.mark.parametrize(
    "setting", ["training.schedule=no_such", "training.device=cuda:99", "training.precision=half", "training.compile=x"]
)
def test_a_setting_that_is_refused_later_does_not_replace_the_saved_ones(setting: str, run: Path) -> None:
    saved = (run / "recipe.toml").read_bytes()
    with pytest.raises(UserError):
        regard.train(None, "training.steps=3", setting, folder=run, resume=True, quiet=True)
    assert (run / "recipe.toml").read_bytes() == saved
    assert regard.train(None, "training.steps=3", folder=run, resume=True, quiet=True).reason == "steps"


def test_what_may_change_is_applied_and_saved(run: Path) -> None:
    settings = ["training.steps=4", "training.learning_rate=0.01", "decoding.beam=2", "target_language=en"]
    regard.train(None, *settings, folder=run, resume=True, quiet=True)
    saved = read_recipe(run / "recipe.toml")
    assert (saved.training.steps, saved.training.learning_rate, saved.decoding.beam) == (4, 0.01, 2)
    assert saved.training.warmup == 1, "as it was saved when the run was begun"
    assert read_recipe(run / "model").decoding.beam == 2


@pytest.mark.parametrize("setting", ["training.schedule=no_such", "training.device=cuda:99", "data.max_length=1"])
def test_a_failed_start_leaves_no_folder(setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(UserError):
        regard.train(apply_overrides(recipe(tmp_path), [setting]), quiet=True)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_failed_start_keeps_a_folder_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("kept")
    with pytest.raises(UserError):
        regard.train(
            apply_overrides(recipe(tmp_path), ["training.schedule=no_such"]), folder=tmp_path / "run", quiet=True
        )
    assert (tmp_path / "run" / "mine.txt").read_text() == "kept"
