"""Progress on the terminal, and TensorBoard logs."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from regard.training.listener import Log
from regard.training.progress import Reporter, visible
from regard.types import Validation


def a_run(report: Reporter, first: int = 1, last: int = 4) -> None:
    report.start(first - 1, 4)
    for step in range(first, last + 1):
        report.advance(step)
        report.log(Log(step, 0, 1.0 / step, 0.5, 2.0, 100 * step, 12345.0))
    report.validated(last, Validation({"bleu": 33.3}, [("un\xa0chat\x1b[2J", "a cat", "a cat\nor two")]))
    report.note("something\x1b]0;happened")
    report.close()


def shown_by(folder: Path, live: bool, **steps: int) -> str:
    with (folder / "stderr").open("w+", encoding="utf-8") as stream:
        a_run(Reporter(folder, stream=stream, live=live), **steps)
        stream.seek(0)
        return stream.read()


def test_plain_lines(tmp_path: Path) -> None:
    shown = shown_by(tmp_path, live=False)
    lines = shown.splitlines()
    assert len(lines) == 4 + 1 + 3 + 1
    assert all(
        part in lines[1] for part in ("step 2/4", "loss 0.5000", "12,345 tokens/s", "lr 5.00e-01", "left 0:00:00")
    )
    assert "bleu 33.3" in lines[4] and "a cat" in lines[6]
    assert "\x1b" not in shown, "text cannot steer the terminal"


def test_live_display(tmp_path: Path) -> None:
    shown = shown_by(tmp_path, live=True)
    for part in ("step 4 of 4", "loss 0.2500", "tokens/s 12,345", "bleu 33.3", "a cat", "something"):
        assert part in shown
    assert "\x1b[2J" not in shown and "\x1b]0" not in shown


def test_visible_keeps_what_people_write() -> None:
    for text in ("l’été\xa0: « ça »", "naïve 👩‍👩‍👧", "日本語", "שלום"):
        assert visible(text) == text
    for unsafe in "\x1b\r\n\x00\x9b\u2028\u202e\ud800":
        assert unsafe not in visible(f"a{unsafe}b")


def test_metrics_are_json_even_for_nan(tmp_path: Path) -> None:
    report = Reporter(tmp_path, live=False)
    report.start(0, 1)
    report.log(Log(1, 0, math.nan, 0.5, math.inf, 1, 1.0))
    report.close()
    line = json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=lambda name: pytest.fail(name))
    assert line["loss"] is None and line["learning_rate"] == 0.5


def test_tensorboard_reads_the_events(tmp_path: Path) -> None:
    """Its own reader checks every checksum, and drops what a resumed run takes again."""
    shown_by(tmp_path, live=False)
    shown_by(tmp_path, live=False, first=3)
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = loading.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(e.step, pytest.approx(e.value)) for e in events.Scalars("train/loss")] == [
        (1, 1.0), (2, 1 / 2), (3, 1 / 3), (4, 1 / 4),
    ]  # fmt: skip
    assert [e.step for e in events.Scalars("valid/bleu")] == [4]


def test_training_never_imports_tensorboard_nor_rich_without_a_terminal() -> None:
    code = "import sys, regard.training.trainer; print([m for m in ('tensorboard', 'rich') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
