"""Sentence scores of all pairs: against sacrebleu, one pair at a time."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from regard.errors import UserError
from regard.evaluation.pairwise import METRICS, pairwise_scores

WORDS = ["The", "a", "man", "dog,", "in", "the", "house's", "3.5", "eats", "runs", "(big)", ".", "red-blue", "été"]


@pytest.mark.parametrize("metric", METRICS)
def test_scores_are_those_of_sacrebleu(metric: str) -> None:
    draw = random.Random(1)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 14))) for _ in range(12)] + ["", "a", " x", "ab c", "a"]
    peer = CHRF() if metric == "chrf" else BLEU(effective_order=True)
    expected = [[peer.sentence_score(one, [other]).score for other in texts] for one in texts]
    found = pairwise_scores(texts, metric)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert np.diag(found)[:12] == pytest.approx(100) and 0 < np.median(found[:12, :12]) < 60


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(UserError, match="'blue' is not known; did you mean 'bleu'"):
        pairwise_scores(["a"], "blue")
