"""Minimum Bayes risk: against a loop over all pairs, and in a translator."""

from __future__ import annotations

import random

import pytest
from sacrebleu.metrics import CHRF

from regard.errors import UserError
from regard.minimum_bayes_risk import MinimumBayesRisk
from tests.task.translators import FAMILIES, TEXTS, translator_of


def test_the_mean_over_all_pairs_decides() -> None:
    draw = random.Random(3)
    texts = [
        " ".join(draw.choices(["one", "two", "three", "four", "five", "six"], k=draw.randint(2, 6))) for _ in range(9)
    ]
    texts += [texts[2], texts[5], texts[2]]  # what is drawn again counts again
    peer = CHRF()
    means = {
        number: sum(peer.sentence_score(one, [other]).score for at, other in enumerate(texts) if at != number) / 11
        for number, one in enumerate(texts)
        if texts.index(one) == number
    }
    found = MinimumBayesRisk().rank(texts)
    assert [number for number, _ in found] == sorted(means, key=lambda number: -means[number])
    assert dict(found) == pytest.approx(means)


def test_one_candidate_wins_and_of_equal_ones_the_first() -> None:
    assert MinimumBayesRisk().rank(["only"]) == [(0, 0.0)]
    assert [number for number, _ in MinimumBayesRisk().rank(["ab", "cd", "ef"])] == [0, 1, 2]
    assert MinimumBayesRisk(metric="bleu").rank(["same"] * 3) == [(0, pytest.approx(100))]


def test_a_translator_takes_the_candidate_most_like_the_others() -> None:
    translator = translator_of(FAMILIES["transformer"])
    samples = translator.translate(TEXTS, top_p=0.7, seed=5, n_best=6, max_length=9)
    found = translator.translate(TEXTS, mbr=MinimumBayesRisk(6), seed=5, top_p=0.7, max_length=9)
    assert found != [one.text for one in samples]
    for one, drawn in zip(found, samples, strict=True):
        texts = [drawn.text, *(other.text for other in drawn.alternatives)]
        best, mean = MinimumBayesRisk(6).rank(texts)[0]
        assert one.text == texts[best] and one.score == pytest.approx(mean / 100)
    assert len({one.text for one in samples} | {other.text for one in samples for other in one.alternatives}) > 6
    alone = translator.translate(TEXTS[2], mbr=MinimumBayesRisk(6), seed=5, top_p=0.7, max_length=9)
    assert alone.text == found[2].text
    single = translator.translate(TEXTS, mbr=MinimumBayesRisk(1), max_length=9)
    assert [one.text for one in single] == [one.text for one in translator.translate(TEXTS, top_p=0.7, max_length=9)]


def test_the_candidates_may_be_those_of_a_beam() -> None:
    translator = translator_of(FAMILIES["luong"])
    listed = translator.translate(TEXTS, beam=5, n_best=5, max_length=9)
    found = translator.translate(TEXTS, beam=2, mbr=MinimumBayesRisk(5, "bleu", "beam"), n_best=2, max_length=9)
    for one, some in zip(found, listed, strict=True):
        texts = [some.text, *(other.text for other in some.alternatives)]
        order = [texts[number] for number, _ in MinimumBayesRisk(5, "bleu").rank(texts)]
        assert [one.text, *(other.text for other in one.alternatives)] == order[:2]


def test_mistakes_are_one_line() -> None:
    translator = translator_of(FAMILIES["luong"])
    with pytest.raises(UserError, match="1 to 1000 candidates, not 0"):
        MinimumBayesRisk(0)
    with pytest.raises(UserError, match="no origin 'heaven'; use samples or beam"):
        MinimumBayesRisk(2, origin="heaven")
    with pytest.raises(UserError, match="candidates of a beam; leave out temperature"):
        translator.translate("a", mbr=MinimumBayesRisk(2, origin="beam"), temperature=1.0)
