"""The same laws on a GPU, with bf16, a real lack of memory and as little waiting as promised."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.storage import read_folder
from regard.training.progress import Quiet
from regard.types import Batch, LossSum
from tests.training.laws import resume_is_exact
from tests.training.toys import Maker, Recorder, Toy, maker

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def on_gpu(kind: str = "transformer", **changes: Any) -> Maker:
    return maker(kind, device="cuda", precision="bfloat16", **changes)


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
def test_resume_is_exact_in_deterministic_mode(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    try:
        resume_is_exact(on_gpu(kind))
    finally:
        torch.use_deterministic_algorithms(False)


def test_one_wait_a_step(tmp_path: Path) -> None:
    trainer = on_gpu(steps=20, save_every=100, validate_every=100, log_every=100)(tmp_path, Quiet())
    counts = []

    class Counting(Quiet):
        def advance(self, step: int) -> None:
            counts.append(len(seen))
            seen.clear()

    trainer.report = Counting()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            trainer.fit()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert counts[5:] == [1] * 15


class Hungry(Toy):
    def loss(self, batch: Batch) -> LossSum:
        found = super().loss(batch)
        waste = torch.empty(len(batch), 3 * 2**28, dtype=torch.uint8, device="cuda")  # 0.75 GiB a row
        del waste
        return found


def test_a_real_lack_of_memory_is_survived(tmp_path: Path) -> None:
    """Rows of 0.75 GiB under a limit of 2 GiB: batches of 4 become parts of 2."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(2 * 2**30 / total)
    told = Recorder()
    try:
        trainer = on_gpu("lstm", steps=5)(tmp_path, told)
        trainer.model.__class__ = Hungry
        assert trainer.fit().step == 5
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert len([note for note in told.notes if "is split in two" in note]) == 5
    assert read_folder(tmp_path / "model").weights()
