"""A run that is killed and resumed equals one that was not: R1, R2, R3, R8, R11."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from regard.storage import read_folder
from regard.training.checkpoints import Checkpoints
from regard.training.listener import Quiet
from tests.training.laws import Killed, KilledAt, last, resume_is_exact, same_run, trained
from tests.training.toys import Recorder, child, files, maker, run_child, train_in_child


def few_or(name: str, few: int, full: int) -> pytest.MarkDecorator:
    """A small count always, the full one with the slow tests."""
    return pytest.mark.parametrize(name, [few, pytest.param(full, marks=pytest.mark.slow)])


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run of the LSTM."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("alone") / "run"
    trained(maker(), folder, Quiet())
    return folder


@few_or("kills", 3, 20)
@pytest.mark.parametrize("kind", ["rnn", "lstm", "transformer", "normed"])
def test_every_kind_of_model_resumes_exactly(kind: str, kills: int) -> None:
    resume_is_exact(maker(kind), kills=kills, seed=kills)


@pytest.mark.parametrize(
    "changes",
    [
        {"ema": 0.9},
        {"accumulate": 3},
        {"schedule": "cosine", "clip": 0.1},
        {"validate_every": 3, "save_every": 5, "patience": 2, "learning_rate": 0.2},
        {"stream": {"poison": {(0, 2), (1, 3)}}},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_every_setting_resumes_exactly(changes: dict) -> None:
    resume_is_exact(maker(**changes), kills=2, seed=2)


def test_at_an_epoch_boundary_at_the_first_and_at_the_last_step() -> None:
    """An epoch is 7 batches long and 7 is a save: the next epoch's order must come from the cursor alone."""
    resume_is_exact(maker(save_every=7), at=[1, 7, 14, 24])


def test_a_law_that_can_fail() -> None:
    """The same law finds a stream that forgets where it was."""

    def forgetful(folder: Path, report: Quiet) -> object:
        trainer = maker()(folder, report)
        trainer.stream.seek = lambda cursor: None  # type: ignore[method-assign]
        return trainer

    with pytest.raises(AssertionError, match="killed at"):
        resume_is_exact(forgetful, at=[9])  # type: ignore[arg-type]


def test_resuming_a_finished_run_changes_nothing(alone: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(alone, again)
    before = read_folder(again / "model").hash
    trained(maker(), again, Quiet())
    assert read_folder(again / "model").hash == before
    same_run(alone, again)


def test_two_runs_give_the_same_files_and_another_seed_does_not(alone: Path, tmp_path: Path) -> None:
    trained(maker(), tmp_path / "same", Quiet())
    same_run(alone, tmp_path / "same")
    trained(maker(stream={"seed": 4}), tmp_path / "other", Quiet())
    assert last(alone).hash != last(tmp_path / "other").hash


@few_or("kills", 4, 20)
def test_sigkill_at_random_steps(kills: int, alone: Path, tmp_path: Path) -> None:
    """Real processes, real kills: several in the life of one run."""
    steps = sorted(random.Random(0).sample(range(1, 24), kills))
    for step in steps:
        assert run_child(train_in_child, str(tmp_path / "run"), "lstm", step) == -signal.SIGKILL
    assert run_child(train_in_child, str(tmp_path / "run")) == 0
    same_run(alone, tmp_path / "run", f"killed at {steps}")


@few_or("kills", 7, 50)
def test_sigkill_inside_a_save(kills: int, alone: Path, tmp_path: Path) -> None:
    """Dies at one of the some 30 file operations of a save: making, writing, flushing, hashing, renaming, pruning."""
    killed = 0
    for number in range(kills):
        folder, save, event = tmp_path / str(number), 1 + number % 4, number * 28 // kills
        code = run_child(train_in_child, str(folder), "lstm", 0, save, event)
        assert code in (0, -signal.SIGKILL)
        if code:
            killed += 1
            found = Checkpoints(folder).newest_valid()
            assert found and found[0].step >= 4 * save, f"a save before the killed one was lost at event {event}"
            assert run_child(train_in_child, str(folder)) == 0
        same_run(alone, folder, f"killed at event {event} of save {save}")
        assert not list(folder.rglob(".*.tmp")), "leftovers stay"
        shutil.rmtree(folder)
    assert killed > kills // 2


@few_or("attempts", 6, 40)
def test_sigkill_at_any_moment(attempts: int, alone: Path, tmp_path: Path) -> None:
    """From outside, at a random time."""
    moments, kills = random.Random(1), 0
    for _ in range(attempts):
        process = child(train_in_child, str(tmp_path / "run"))
        process.join(moments.uniform(0.02, 0.5))
        process.kill()
        process.join()
        kills += process.exitcode != 0
    assert run_child(train_in_child, str(tmp_path / "run")) == 0
    assert kills
    same_run(alone, tmp_path / "run")


def slow_training(folder: str, slow_save: bool) -> None:
    torch.set_num_threads(1)

    class Slow(Quiet):
        def advance(self, step: int) -> None:
            Path(folder, "begun").touch()
            time.sleep(0.01)

    def slow_files(weights: dict[str, Tensor]) -> dict[str, bytes]:
        Path(folder, "saving").touch()
        time.sleep(60)
        return files(weights)

    trainer = maker(steps=100_000, save_every=100_000, validate_every=100_000)(Path(folder), Slow())
    if slow_save:
        trainer.saver.model_files = slow_files
    trainer.fit()


def wait_for(path: Path) -> None:
    limit = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < limit, f"{path.name} never came"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_exits(number: signal.Signals, tmp_path: Path) -> None:
    process = child(slow_training, str(tmp_path), False)
    wait_for(tmp_path / "begun")
    asked = time.monotonic()
    os.kill(process.pid, number)
    process.join(10)
    assert process.exitcode == 0 and time.monotonic() - asked < 3
    saved = Checkpoints(tmp_path).all()
    assert [one.kind for one in saved] == ["-stop"] and saved[0].step > 0
    assert read_folder(saved[0].path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_at_once(number: signal.Signals, tmp_path: Path) -> None:
    process = child(slow_training, str(tmp_path), True)
    wait_for(tmp_path / "begun")
    os.kill(process.pid, number)
    wait_for(tmp_path / "saving")
    asked = time.monotonic()
    os.kill(process.pid, number)
    process.join(10)
    assert process.exitcode not in (0, None) and time.monotonic() - asked < 3


class SignalAt(Recorder):
    """Sends this process a signal at a step."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def advance(self, step: int) -> None:
        if step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("step", [3, 8, 22])
def test_an_interrupted_run_ends_as_if_it_had_not_been(step: int, alone: Path, tmp_path: Path) -> None:
    """Step 8 is due for validation and a save, which wait for the resumed run; no checkpoint too many is averaged."""
    handlers = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    result = maker()(tmp_path, SignalAt(step)).fit()
    assert result.interrupted and result.step == step and result.model is None
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == handlers
    trained(maker(), tmp_path, Quiet())
    same_run(alone, tmp_path)


def test_a_signal_breaks_a_validation_off(alone: Path, tmp_path: Path) -> None:
    trainer = maker()(tmp_path, Quiet())

    def endless(model: torch.nn.Module) -> None:
        torch.rand(3)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

    trainer.validator.validate = endless  # type: ignore[assignment]
    began = time.monotonic()
    assert trainer.fit().interrupted and time.monotonic() - began < 10
    assert Checkpoints(tmp_path).all()[-1].step == 8
    trained(maker(), tmp_path, Quiet())
    same_run(alone, tmp_path)


def test_metrics_have_every_step_once(tmp_path: Path) -> None:
    import json

    from regard.training.progress import Reporter

    class Dying(Reporter):
        def advance(self, step: int) -> None:
            if step == 10:
                raise Killed

    with (tmp_path / "stderr").open("w") as stream:
        with pytest.raises(Killed):
            maker()(tmp_path, Dying(tmp_path, stream=stream)).fit()
        with (tmp_path / "metrics.jsonl").open("a") as file:
            file.write('{"step": 10, "lo')  # a kill may cut a line short
        trained(maker(), tmp_path, Reporter(tmp_path, stream=stream))
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, 25))
    assert [line["step"] for line in lines if "valid_loss" in line] == [8, 16, 24]
    told = Recorder()
    trained(maker(), tmp_path / "alone", told)
    assert [line["loss"] for line in lines if "loss" in line] == [told.logs[step].loss for step in range(1, 25)]


def test_resume_refuses_what_would_move_the_cursor(tmp_path: Path) -> None:
    from regard.errors import UserError

    with pytest.raises(Killed):
        trained(maker(), tmp_path, KilledAt(9))
    with pytest.raises(UserError, match="batch_tokens was 64"):
        maker(batch_tokens=128)(tmp_path, Quiet()).resume()
    with pytest.raises(UserError, match="already holds a run"):
        maker()(tmp_path, Quiet()).fit()
