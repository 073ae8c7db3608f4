"""The lecture's matrix counted by hand; other texts and windows flip the verdict."""

from __future__ import annotations

import pytest

from regard.lab import co_occurrence
from regard.lab._experiment import Setting
from regard.lab.co_occurrence import SENTENCES, WORDS, CoOccurrenceMatrix

EXPERIMENT = CoOccurrenceMatrix()


def test_it_is_the_lectures_matrix():
    numbers = EXPERIMENT.run("tiny", Setting())
    verdict = EXPERIMENT.verdict(numbers)
    assert verdict.held, verdict.sentence
    assert numbers["tokens"][0] == ["I", "like", "deep", "learning", "."]
    for i, one in enumerate(WORDS):
        for j, other in enumerate(WORDS):
            lines = [sentence.replace(".", " .").split() for sentence in SENTENCES]
            beside = sum((a, b) in ((one, other), (other, one)) for line in lines for a, b in zip(line, line[1:]))
            assert numbers["windows"]["1"][i][j] == beside
    assert EXPERIMENT.table(numbers)[1] == ["I", "0", "2", "1", "0", "0", "0", "0", "0"]


@pytest.mark.parametrize(
    "other",
    [
        ("I like deep learning.", "I like NLP.", "I like flying. enjoy"),
        ("I like deep learning. I like NLP. I enjoy flying.",),  # one line: a full stop then has a neighbour
    ],
)
def test_another_text_flips_it(other, monkeypatch):
    monkeypatch.setattr(co_occurrence, "SENTENCES", other)
    assert not EXPERIMENT.verdict(EXPERIMENT.run("tiny", Setting())).held


def test_a_control_that_is_the_same_flips_it():
    numbers = EXPERIMENT.run("tiny", Setting())
    windows = {"1": numbers["windows"]["1"], "2": numbers["windows"]["1"]}
    assert not EXPERIMENT.verdict(numbers | {"windows": windows}).held
