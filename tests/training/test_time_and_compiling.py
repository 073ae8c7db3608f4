"""What a training does of its own accord: its schedule follows the time, and long ones are compiled on a GPU."""

from __future__ import annotations

import pytest
import torch

from regard import runs
from regard.config import Training
from regard.errors import UserError
from regard.training.loop import Ledger, Trainer
from regard.training.progress import Quiet

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class Notes(Quiet):
    def __init__(self):
        self.said = []

    def note(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize(
    ("minutes", "step", "seconds", "expected"),
    [(0.0, 30, 1e9, 30), (2.0, 30, 0.0, 30), (2.0, 30, 60.0, 50), (2.0, 70, 60.0, 70), (2.0, 30, 500.0, 100)],
)
def test_the_schedule_is_where_the_steps_or_the_time_are(minutes, step, seconds, expected):
    trainer = object.__new__(Trainer)
    trainer.settings = Training(steps=100, minutes=minutes)
    trainer.ledger = Ledger(seed=1, batch_tokens=1, cursor={}, step=step, seconds=seconds)
    assert trainer._scheduled() == expected


def test_long_trainings_on_a_gpu_are_compiled(monkeypatch):
    monkeypatch.setattr(runs, "has_triton", lambda: True)
    long, short = runs.WORTH_COMPILING, runs.WORTH_COMPILING - 1
    assert runs._compiles(Training(steps=long), CUDA, Notes())
    assert not runs._compiles(Training(steps=short), CUDA, Notes())
    assert not runs._compiles(Training(steps=long), CPU, Notes())
    assert not runs._compiles(Training(steps=long, compile="never"), CUDA, Notes())
    assert not runs._compiles(Training(steps=long, shard=True), CUDA, Notes())
    assert runs._compiles(Training(steps=short, compile="always"), CPU, Notes())
    with pytest.raises(UserError, match=r"training\.compile: no 'sometimes'"):
        runs._compiles(Training(compile="sometimes"), CPU, Notes())


def test_what_cannot_be_compiled_costs_a_line(monkeypatch):
    monkeypatch.setattr(runs, "has_triton", lambda: False)
    notes = Notes()
    assert not runs._compiles(Training(steps=runs.WORTH_COMPILING), CUDA, notes)
    assert len(notes.said) == 1 and "not compiled" in notes.said[0]
