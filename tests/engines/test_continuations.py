"""Continuations of a translation: those of every engine, against the model's own probabilities spelled out."""

from __future__ import annotations

import pytest
import torch
from engines.conftest import LINES, refusal

import regard
from regard.hypothesis import penalty
from regard.loading import load
from regard.types import BEGIN, END


@pytest.fixture(scope="module")
def slow(folder):
    return load(folder, device="cpu")


@pytest.fixture
def both(folder, slow):
    return [slow, regard.load(folder, device="cpu", engine="ctranslate2")]


@torch.no_grad()
def log_probs(slow, source: str, written: list[int]) -> torch.Tensor:
    ids = torch.tensor([[*slow.tokenizer.encode(source), END]])
    given = torch.tensor([[BEGIN, *written]])
    return slow.model(ids, torch.ones_like(ids, dtype=torch.bool), given)[0].log_softmax(-1)


def beginning_of(slow, source: str) -> str:
    """The first word of what the model says, so that going on is not nonsense."""
    words = slow.translate(source).text.split()
    assert len(words) > 1
    return words[0]


@pytest.mark.parametrize("words", [0, 1])
def test_the_next_tokens_are_the_most_likely_ones(slow, both, words):
    for line in LINES[:3]:
        prefix = beginning_of(slow, line) if words else ""
        written = slow.tokenizer.encode(prefix) if prefix else []
        last = log_probs(slow, line, written)[-1]
        order = [token for token in last.argsort(descending=True).tolist() if token > END][:6]
        for model in both:
            assert model.next_tokens(slow.tokenizer.encode(line), written, 20)[:6] == order


def test_each_begins_as_told_differs_in_the_next_word_and_has_the_score_of_its_tokens(slow, both):
    line = LINES[2]
    prefix = beginning_of(slow, line)
    found = [model.continuations(line, prefix, n_best=4) for model in both]
    for each in found:
        assert len(each) == 4 == len({one.next_word for one in each})
        assert [one.score for one in each] == sorted((one.score for one in each), reverse=True)
        for one in each:
            assert one.text.startswith(prefix)
            rest = one.text[len(prefix) :].split()
            assert one.next_word == (rest[0] if rest else "")
            ids = slow.tokenizer.encode(one.text)
            of_tokens = log_probs(slow, line, ids)[torch.arange(len(ids) + 1), [*ids, END]]
            assert one.log_probability == pytest.approx(float(of_tokens.sum()), abs=1e-3)
            assert one.score == pytest.approx(one.log_probability / penalty(len(ids) + 1, 1.0), abs=1e-3)
        # As good as what torch's search found by itself, which began with the same word; each search is a beam's.
        whole = slow.translate(line)
        assert whole.text.startswith(prefix) and each[0].score >= whole.score - 0.05


def test_a_translation_may_end_where_the_prefix_ends(slow, both):
    line = LINES[0]
    whole = slow.translate(line)
    for model in both:
        best = model.continuations(line, whole.text, n_best=3)[0]
        assert (best.text, best.next_word) == (whole.text, "")
        assert best.score == pytest.approx(whole.score, abs=1e-3)


def test_what_cannot_be_continued_is_refused_in_one_line(slow):
    assert "give one sentence" in refusal(lambda: slow.continuations("Une gare. Un train. Une clé. Un livre.", ""))
    assert "is empty" in refusal(lambda: slow.continuations("  ", ""))
    assert "between 1 and 32" in refusal(lambda: slow.continuations("oui", "", n_best=33))
    assert "longer than the model writes (256 tokens)" in refusal(lambda: slow.continuations("oui", "la gare " * 400))
