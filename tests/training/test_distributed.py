"""Several processes started by torchrun train what one would: the same losses, weights and batches."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import Recipe, read_recipe, to_toml
from regard.data.examples import ExampleBatches
from regard.errors import UserError
from regard.runs import train
from regard.runs.preparation import data_files, join
from regard.storage import read_folder
from regard.training.checkpoints import Checkpoints
from regard.training.interruption import Interruption
from regard.training.ranks import Ranks
from tests.training.laws import last
from tests.training.ranks import Scenario, alone, examples, launch, train_together

EMA = {"accumulate": 3, "ema": 0.9, "clip": 0.5}

SCENARIOS = {
    "plain": Scenario("", training={"accumulate": 2}),
    "uneven": Scenario("", training=EMA, poison=11),
    "tied": Scenario("", "seq2seq", training={**EMA, "shard": True}),
    "stopped": Scenario("", "transformer", training={"accumulate": 4}, signal_at=(1, 6)),
    "stopped in shares": Scenario("", "seq2seq", training={**EMA, "shard": True}, signal_at=(1, 6)),
    "burst": Scenario("", training={"accumulate": 3}, burst=(1, 2)),
    "left out": Scenario("", training={"accumulate": 2, "steps": 4}, burst=(1, 0)),
    "begun alone": Scenario("", training={"accumulate": 3}, resume=True),
    "begun alone, in shares": Scenario("", "seq2seq", training={**EMA, "shard": True}, resume=True),
}


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All scenarios, run by two processes that torchrun started; those `begun alone` had been stopped at step 6."""
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("together")
    scenarios = [replace(scenario, folder=str(place / name)) for name, scenario in SCENARIOS.items()]
    for scenario in scenarios:
        if scenario.resume:
            whole = {**scenario.training, "shard": False}
            alone(replace(scenario, training=whole, resume=False, signal_at=(0, 6)))
    train_together(scenarios)
    return place


def by_one(name: str, folder: Path) -> Path:
    """The same scenario, run by one process without interruption."""
    alone(replace(SCENARIOS[name], folder=str(folder), signal_at=(-1, 0), resume=False, burst=(-1, 0)))
    return folder


def told(run: Path, first: int = 0, rank: int = 0) -> dict[str, Any]:
    return json.loads((run / f"told-{first}-{rank}.json").read_text())


def same(one: Path, other: Path, begun: int = 0) -> None:
    """Losses, norms, scores and weights but for rounding; steps, units, rates and the cursor exactly."""
    expected, found = told(one)["logs"], told(other, begun)["logs"]
    assert found.keys() == {step for step in expected if int(step) > begun} and found
    for step, log in found.items():
        layers = log.pop("layers")
        assert layers == pytest.approx(expected[step].pop("layers"), rel=2e-4, nan_ok=True) and layers, step
        assert log == pytest.approx(expected[step], rel=2e-4, nan_ok=True), step
        assert log["units"] == expected[step]["units"]
    for folders in ((last(one), last(other)), (read_folder(one / "model"), read_folder(other / "model"))):
        weights, others = (folder.weights() for folder in folders)
        assert weights.keys() == others.keys()
        for name, tensor in weights.items():
            torch.testing.assert_close(others[name], tensor, rtol=2e-3, atol=2e-4)
    ledgers = [json.loads(last(run).read("training.json")) for run in (one, other)]
    assert [ledger["cursor"] for ledger in ledgers][0] == ledgers[1]["cursor"]
    assert ledgers[0]["units"] == ledgers[1]["units"]


@pytest.mark.parametrize("name", ["plain", "uneven", "tied"])
def test_two_processes_train_what_one_does(name: str, together: Path, tmp_path: Path) -> None:
    same(by_one(name, tmp_path / "one"), together / name)


def test_only_what_is_not_finite_is_skipped_and_by_all(together: Path) -> None:
    notes = told(together / "uneven")["notes"]
    assert len([note for note in notes if "not finite" in note]) >= 1
    assert not told(together / "uneven", rank=1)["notes"], "what happened to all is said once"


def test_a_second_process_never_changes_the_result_of_a_first_that_stands_alone(tmp_path: Path) -> None:
    """That the comparison can fail: other gradients give other weights."""
    one = by_one("plain", tmp_path / "one")
    other = tmp_path / "other"
    alone(Scenario(str(other), training={"accumulate": 1}))
    with pytest.raises(AssertionError):
        same(one, other)


# --------------------------------------------------------------------------------------------- who is given what, once


def texts(stream: ExampleBatches, batches: int) -> list[list[list[int]]]:
    return [[row[kept].tolist() for row, kept in zip(b.source, b.source_mask)] for b in islice(stream, batches)]


def dealt(run: Path, first: int, ranks: int, together: int) -> list[Counter[str]]:
    """What all ranks together were given at each step."""
    seen = [told(run, first, rank)["seen"] for rank in range(ranks)]
    steps = len(seen[0]) // len(range(0, together, ranks))
    found = []
    for step in range(steps):
        given: Counter[str] = Counter()
        for rank in range(ranks):
            own = len(range(rank, together, ranks))
            given.update(str(rows) for rows in seen[rank][step * own : (step + 1) * own])
        found.append(given)
    return found


@pytest.mark.parametrize(("name", "first", "accumulate"), [("plain", 0, 2), ("begun alone", 6, 3)])
def test_together_they_see_every_batch_exactly_once(name: str, first: int, accumulate: int, together: Path) -> None:
    """Also after a resume, which goes on where the one process was stopped."""
    stream = ExampleBatches(lambda epoch: examples(), varying=True, batch_tokens=64, batch_examples=4, seed=2)
    every = texts(stream, 12 * accumulate)
    wanted = [Counter(map(str, every[step * accumulate :][:accumulate])) for step in range(first, 12)]
    assert dealt(together / name, first, 2, accumulate) == wanted


# -------------------------------------------------------------------------------------- stopping, and other numbers of


@pytest.mark.parametrize("name", ["stopped", "stopped in shares"])
def test_a_signal_to_one_stops_all_at_one_step_and_one_process_can_go_on(
    name: str, together: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(together / name, run)
    saved = Checkpoints(run).all()[-1]
    assert (saved.step, saved.kind) == (7, "-stop"), "asked after step 6, agreed during the next"
    shards = [file for file in read_folder(saved.path).names if file.startswith("shard-")]
    assert len(shards) == (2 if "shares" in name else 0)
    whole = {**SCENARIOS[name].training, "shard": False}
    alone(replace(SCENARIOS[name], folder=str(run), training=whole, resume=True, signal_at=(-1, 0)))
    same(by_one(name, tmp_path / "one"), run, begun=7)


@pytest.mark.parametrize("name", ["begun alone", "begun alone, in shares"])
def test_two_processes_go_on_where_one_was_stopped(name: str, together: Path, tmp_path: Path) -> None:
    same(by_one(name, tmp_path / "one"), together / name, begun=6)


def test_no_pickle_is_written(together: Path) -> None:
    written = {file.suffix for file in together.rglob("*") if file.is_file()}
    assert written <= {".safetensors", ".json", ".txt", ""} and not list(together.rglob(".metadata"))


def test_what_does_not_fit_on_one_is_split_there_and_nobody_waits(together: Path, tmp_path: Path) -> None:
    same(by_one("burst", tmp_path / "one"), together / "burst")
    assert any("is split in two" in note for note in told(together / "burst", rank=1)["notes"])
    assert not told(together / "burst", rank=0)["notes"][1:], "the others have nothing to say"


def test_what_fits_nowhere_on_one_is_left_out_there_and_nobody_waits(together: Path) -> None:
    stream = ExampleBatches(lambda epoch: examples(), varying=True, batch_tokens=64, batch_examples=4, seed=2)
    units = sum(batch.units for batch in islice(islice(stream, 8), 0, None, 2))
    assert told(together / "left out")["logs"]["4"]["units"] == units, "the first process's alone"
    assert any("is left out" in note for note in told(together / "left out", rank=1)["notes"])


# -------------------------------------------------------------------------------------------------- the command itself

TINY = ["sst2-lstm", "--tiny", "--device", "cpu", "training.average=1", "training.log_every=1"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("mistake", "regard: data: line 7 is not what it should be; look at it\n"),
        pytest.param("bug", "ZeroDivisionError: injected\n", marks=pytest.mark.slow),
        pytest.param("stuck", "regard: data: line 7 is not what it should be; look at it\n", marks=pytest.mark.slow),
        pytest.param("killed", "regard: another process of this run was ended from outside", marks=pytest.mark.slow),
    ],
)
def test_one_that_fails_ends_all_and_says_why(how: str, said: str, tmp_path: Path) -> None:
    process = launch("tests.training.ranks", f"fail:{how}", "train", *TINY, "--output", str(tmp_path / "run"))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, "torchrun's"
    assert said in err and err.count("regard: ") == (how != "bug"), err
    own = [line for line in err.splitlines() if "/regard/" in line and "site-packages" not in line]
    assert bool(own) == (how == "bug"), "a mistake has no traceback"


def test_machines_that_do_not_share_a_disk_are_told_so(tmp_path: Path) -> None:
    (tmp_path / "lines.tsv").write_text("good\tfine\n")
    recipe = replace(Recipe(), data=replace(Recipe().data, train=[str(tmp_path / "lines.tsv")]))
    second, told = Ranks(1, 2), {"recipe": to_toml(recipe), "place": str(tmp_path / "run"), "files": data_files(recipe)}
    with pytest.raises(UserError, match="run cannot be seen by rank 1; all machines must share the disk"):
        join(second, **told)
    (tmp_path / "run" / "codec").mkdir(parents=True)
    (tmp_path / "lines.tsv").write_text("another\tfile\n")
    with pytest.raises(UserError, match="lines.tsv is not the same file for rank 1"):
        join(second, **told)


def test_a_signal_that_is_passed_on_is_no_second_one() -> None:
    with Interruption(echo=0.2) as interruption:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert interruption.requested
        time.sleep(0.25)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_sigterm_to_torchrun_saves_once_and_one_process_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = launch("regard", "train", *TINY, "--steps", "100000", "--output", str(run))
    limit = time.monotonic() + 60
    while not (run / "metrics.jsonl").exists() or not (run / "metrics.jsonl").read_text():
        assert time.monotonic() < limit and process.poll() is None, process.communicate()
        time.sleep(0.1)
    asked = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=40)
    assert time.monotonic() - asked < 20
    assert err.count("stopped and saved; go on with: regard train --resume") == 1
    assert err.count("training.accumulate is raised from 1 to 2") == 1 and read_recipe(run).training.accumulate == 2
    (saved,) = Checkpoints(run).all()
    assert saved.kind == "-stop" and saved.step > 0
    again = train(None, f"training.steps={saved.step + 2}", folder=run, resume=True, quiet=True)
    assert again.reason == "steps" and (run / "model" / "manifest.json").is_file()
