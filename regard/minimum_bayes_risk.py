"""Minimum Bayes risk (Kumar and Byrne 2004; Eikema and Aziz 2020): of many candidates, the one most like all others.

The mean score of a candidate against the others estimates how good it is if the model's own distribution is right. A
candidate that was drawn several times counts as often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import UserError
from regard.evaluation.pairwise import METRICS, pairwise_scores

MOST_CANDIDATES = 1000
ORIGINS = ("samples", "beam")


@dataclass(frozen=True)
class MinimumBayesRisk:
    """How many candidates there are, where they come from, and by which metric they are compared."""

    candidates: int = 16
    metric: str = "chrf"
    """chrf or bleu, of sentences."""
    origin: str = "samples"
    """samples, drawn as `translate` is told (temperature, top_k, top_p, seed; by default top_p 0.7), or beam: the best
    hypotheses of a beam search."""

    def __post_init__(self) -> None:
        if not 1 <= self.candidates <= MOST_CANDIDATES:
            raise UserError(f"minimum Bayes risk needs 1 to {MOST_CANDIDATES} candidates, not {self.candidates}")
        for name, value, known in (("metric", self.metric, METRICS), ("origin", self.origin, ORIGINS)):
            if value not in known:
                raise UserError(f"minimum Bayes risk has no {name} '{value}'; use {' or '.join(known)}")

    def rank(self, texts: Sequence[str]) -> list[tuple[int, float]]:
        """Ranks texts by their mean score against all the others; of equal ones, that which comes first.

        Args:
            texts: The candidates; one that is there several times counts as often.

        Returns:
            The different texts by number, each with its mean score, 0 to 100; the best first.
        """
        first: dict[str, int] = {}
        for number, text in enumerate(texts):
            first.setdefault(text, number)
        distinct = list(first)
        scores = pairwise_scores(distinct, self.metric)
        times = [texts.count(text) for text in distinct]
        means = [
            (float(scores[i] @ times) - float(scores[i, i])) / max(1, len(texts) - 1) for i in range(len(distinct))
        ]
        return sorted(zip(first.values(), means), key=lambda one: (-round(one[1], 9), one[0]))
