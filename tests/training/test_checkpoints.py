"""Which checkpoints stay, and which are averaged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.errors import UserError
from regard.storage import read_folder
from regard.training.checkpoints import Checkpoints, Lock, average
from regard.weights import save_weights


def save(checkpoints: Checkpoints, step: int, value: float = 0.0, **kind: bool) -> None:
    checkpoints.save(step, {"weights.safetensors": save_weights({"w": torch.full((2,), value)})}, **kind)


def names(checkpoints: Checkpoints) -> list[str]:
    return [saved.path.name for saved in checkpoints.all()]


def test_the_newest_the_best_and_those_before_the_best_stay(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2, average=2)
    for step in range(1, 9):
        save(checkpoints, step, best=step in (1, 4))
    assert names(checkpoints) == ["step-00000003", "step-00000004-best", "step-00000007", "step-00000008"]
    assert [saved.step for saved in checkpoints.to_average()] == [3, 4]


def test_a_stop_is_passing(tmp_path: Path) -> None:
    """It is kept while it is the newest, counts as none of those to keep and is never averaged."""
    checkpoints = Checkpoints(tmp_path, keep=2, average=3)
    save(checkpoints, 1), save(checkpoints, 2), save(checkpoints, 3, interrupted=True)
    assert names(checkpoints) == ["step-00000001", "step-00000002", "step-00000003-stop"]
    assert [saved.step for saved in checkpoints.to_average()] == [1, 2]
    save(checkpoints, 3)
    assert names(checkpoints)[-1] == "step-00000003"


def test_keep_one(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    for step in range(1, 5):
        save(checkpoints, step, best=step == 2)
    assert names(checkpoints) == ["step-00000002-best", "step-00000004"]
    assert not list(tmp_path.rglob("*.tmp"))


def test_average_is_the_mean(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in (1, 2, 3):
        save(checkpoints, step, value=float(step**2))
    mean = average(read_folder(saved.path) for saved in checkpoints.all())
    assert mean["w"].tolist() == pytest.approx([14 / 3] * 2)


def test_other_names_are_left_alone(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    (tmp_path / "checkpoints" / "mine").mkdir(parents=True)
    (tmp_path / "checkpoints" / "step-00000001-mine").mkdir()
    save(checkpoints, 1), save(checkpoints, 2)
    assert sorted(p.name for p in checkpoints.folder.iterdir()) == ["mine", "step-00000001-mine", "step-00000002"]


def test_a_lock_is_held_until_it_is_released(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    with pytest.raises(UserError, match="is training here"):
        Lock(tmp_path)
    lock.release()
    Lock(tmp_path).release()
