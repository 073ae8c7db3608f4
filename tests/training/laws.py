"""What every architecture's training must obey. A new architecture inherits it with one line:

    def test_resume() -> None:
        resume_is_exact(make_trainer)

where `make_trainer(folder, report)` builds model, stream and Trainer from scratch, the same each time, on the CPU, with
dropout on and few steps (say 20, save_every 4, a stream whose epoch is shorter than the run).
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from regard.storage import Folder, read_folder
from regard.training.checkpoints import Checkpoints
from regard.training.listener import Listener
from regard.training.trainer import Trainer
from regard.weights import load_tensors
from tests.training.toys import Recorder

MakeTrainer = Callable[[Path, Listener], Trainer]


class Killed(BaseException):
    """Ends a run as abruptly as is possible within a process: nothing in the trainer catches it."""


class KilledAt(Recorder):
    """A listener that ends the run after a step."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def advance(self, step: int) -> None:
        if step == self.step:
            raise Killed


def resume_is_exact(make_trainer: MakeTrainer, kills: int = 3, seed: int = 0, at: Sequence[int] | None = None) -> None:
    """Killed at random steps (or at those in `at`) and resumed each time, a run equals the one that was left alone.

    Compared to the last bit: every loss, gradient norm and learning rate, every validation score, every file of the
    last checkpoint (weights, optimizer, random states, counters, data cursor) and the finished model.
    """
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        alone, told = Path(scratch, "alone"), Recorder()
        steps = trained(make_trainer, alone, told)
        points = sorted(at if at is not None else scattered(steps, kills, seed))
        resumed, heard = Path(scratch, "resumed"), Recorder()
        for point in points:
            killed = KilledAt(point)
            try:
                trained(make_trainer, resumed, killed)
            except Killed:
                heard.logs.update(killed.logs)
                heard.scores.update(killed.scores)
            else:
                raise AssertionError(f"the run was to end at step {point}")
        trained(make_trainer, resumed, heard)
        for expected, found in ((told.logs, heard.logs), (told.scores, heard.scores)):
            difference = first_difference(expected, found)
            assert not difference, f"killed at {points}: {difference}"
        same_run(alone, resumed, f"killed at {points}")


def scattered(steps: int, count: int, seed: int) -> list[int]:
    """Random steps, one in each of `count` equal parts of a run, so that some come after a save and some before."""
    count = min(count, steps - 1)
    borders = [1 + part * (steps - 1) // count for part in range(count + 1)]
    chance = random.Random(seed)
    return [chance.randrange(first, after) for first, after in zip(borders, borders[1:])]


def trained(make_trainer: MakeTrainer, folder: Path, report: Listener) -> int:
    """Begins or goes on with the run in a folder, to its end."""
    trainer = make_trainer(folder, report)
    trainer.settings.log_every = 1
    trainer.resume()
    torch.rand(7)  # what happens to the random numbers in between must not matter
    return trainer.fit().step


def same_run(one: Path, other: Path, context: str = "") -> None:
    """The last checkpoints and the models of two runs are the same files."""
    for folders in ((last(one), last(other)), (read_folder(one / "model"), read_folder(other / "model"))):
        if folders[0].hash != folders[1].hash:
            raise AssertionError(f"{context}: {folders[0].path.name} differs in {', '.join(differences(*folders))}")


def last(run: Path) -> Folder:
    return read_folder(Checkpoints(run).all()[-1].path)


def differences(one: Folder, other: Folder) -> list[str]:
    """Which files, and which tensors in them, are not the same: what a person needs to find the cause."""
    if last_names := set(one.names) ^ set(other.names):
        return sorted(last_names)
    found = []
    for name in one.names:
        if one.read(name) != other.read(name):
            found.append(name)
            if name.endswith(".safetensors"):
                left, right = load_tensors(one.path / name), load_tensors(other.path / name)
                found += [key for key in left if key not in right or not torch.equal(left[key], right[key])]
            else:
                found.append(f"{one.read(name)[:500]!r} and {other.read(name)[:500]!r}")
    return found


def first_difference(expected: dict, found: dict) -> str:
    """Compared as text, which tells all floats apart and lets NaN, the loss of a skipped step, equal itself."""
    for step in sorted({*expected, *found}):
        if repr(expected.get(step)) != repr(found.get(step)):
            return f"step {step} was {expected.get(step)} and is {found.get(step)}"
    return ""
