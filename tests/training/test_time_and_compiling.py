"""Automatic choices of a training: its schedule follows the time limit, and long ones are compiled on a GPU."""

from __future__ import annotations

import pytest
import torch

from regard.config import Training
from regard.errors import UserError
from regard.runs import setup
from regard.training.listener import Quiet
from regard.training.state import TrainingState
from regard.training.step import schedule_step

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
    state = TrainingState(seed=1, batch_tokens=1, cursor={}, step=step, seconds=seconds)
    assert schedule_step(Training(steps=100, minutes=minutes), state) == expected


def test_long_trainings_on_a_gpu_are_compiled(monkeypatch):
    monkeypatch.setattr(setup, "has_triton", lambda: True)
    long, short = setup.MIN_STEPS_TO_COMPILE, setup.MIN_STEPS_TO_COMPILE - 1
    assert setup.compiles(Training(steps=long), CUDA, Notes())
    assert not setup.compiles(Training(steps=short), CUDA, Notes())
    assert not setup.compiles(Training(steps=long), CPU, Notes())
    assert not setup.compiles(Training(steps=long, compile="never"), CUDA, Notes())
    assert not setup.compiles(Training(steps=long, shard=True), CUDA, Notes())
    assert setup.compiles(Training(steps=short, compile="always"), CPU, Notes())
    with pytest.raises(UserError, match=r"training\.compile: no 'sometimes'"):
        setup.compiles(Training(compile="sometimes"), CPU, Notes())


def test_what_cannot_be_compiled_costs_a_line(monkeypatch):
    monkeypatch.setattr(setup, "has_triton", lambda: False)
    notes = Notes()
    assert not setup.compiles(Training(steps=setup.MIN_STEPS_TO_COMPILE), CUDA, notes)
    assert len(notes.said) == 1 and "not compiled" in notes.said[0]
