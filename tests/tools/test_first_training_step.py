"""The measurement of large corpora runs on a small one, and fails when it should."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tools import first_training_step

SMALL = [
    "data.part=200",
    "data.window=200",
    "data.hold_out_valid=10",
    "tokenizer.kind=word",
    "training.batch_tokens=500",
]


def test_words_are_drawn_as_in_texts(tmp_path: Path) -> None:
    first_training_step.write_corpus(tmp_path / "a", 2000, 0)
    lines = (tmp_path / "a").read_text().splitlines()
    assert len(lines) == len(set(lines)) == 2000 and all(10 <= len(line.split()) <= 25 for line in lines)
    counts = sorted(Counter(word for line in lines for word in line.split()).values(), reverse=True)
    assert 0.02 < counts[0] / sum(counts) < 0.06 and 1 <= counts[len(counts) // 2] < 5 and len(counts) > 5000


@pytest.mark.slow
def test_it_measures_the_first_step_and_both_processes(tmp_path: Path, capsys) -> None:
    given = ["--pairs", "4000", "--folder", str(tmp_path), *SMALL]
    assert first_training_step.main([*given, "--require", "500", "--memory", "4"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("4,000 pairs: first step after ") and 0.5 < float(first.split()[-2]) < 300
    training, packing = (float(word) for word in second.split() if word[0].isdigit())
    assert 0.1 < training < 4 and 0.05 < packing < 4
