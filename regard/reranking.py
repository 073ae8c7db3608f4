"""Reranking of n-best lists by other models: the noisy channel (Yee et al. 2019, Ng et al. 2019).

    score = log p(y | x) / penalty + reverse * log p(x | y) / |x| + lm * log p(y) / |y|

A reverse model says how well the source follows from a translation, a language model how well the translation reads.
Both are divided by their number of tokens, so that neither prefers short texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import UserError

WEIGHTS = {"reverse": 0.5, "lm": 0.2}
CANDIDATES = 8


@dataclass(frozen=True)
class Reranker:
    """Further models and their weights; at least one of the models."""

    reverse: Any = None
    """A translator from the target language to the source language."""
    lm: Any = None
    """A language model of the target language."""
    reverse_weight: float = WEIGHTS["reverse"]
    lm_weight: float = WEIGHTS["lm"]
    candidates: int = CANDIDATES
    """Hypotheses of a sentence that are ranked: the beam is at least as wide."""

    def __post_init__(self) -> None:
        if self.reverse is None and self.lm is None:
            raise UserError("reranking needs a reverse model, a language model or both")
        for name, model, task in (("reverse", self.reverse, "translate"), ("lm", self.lm, "generate")):
            if model is not None and model.recipe.task != task:
                kind = "a translator" if task == "translate" else "a language model"
                raise UserError(f"reranking: {name} must be {kind}; this model is made to {model.recipe.task}")
        if not all(0 <= weight <= 100 for weight in (self.reverse_weight, self.lm_weight)):
            raise UserError("the weights of a reranking lie between 0 and 100")
        if not 1 <= self.candidates <= 1000:
            raise UserError(f"reranking needs 1 to 1000 candidates, not {self.candidates}")

    def scores(
        self, sources: Sequence[str], candidates: Sequence[Sequence[str]], source: str | None, target: str | None
    ) -> list[list[float]]:
        """Scores candidates by the further models.

        Args:
            sources: Texts.
            candidates: The translations of each text.
            source: The language of the texts, for a reverse model of several.
            target: The language of the translations.

        Returns:
            What each candidate of each text gains, to be added to its own score.
        """
        rows = [(text, one) for text, some in zip(sources, candidates, strict=True) for one in some]
        gains = [0.0] * len(rows)
        if self.reverse is not None and rows:
            languages = self._languages(source, target)
            found = self.reverse.score([one for _, one in rows], [text for text, _ in rows], **languages)
            gains = [gain + self.reverse_weight * _mean(each) for gain, each in zip(gains, found)]
        if self.lm is not None and rows:
            found = self.lm.score([one for _, one in rows])
            gains = [gain + self.lm_weight * _mean(each) for gain, each in zip(gains, found)]
        left = iter(gains)
        return [[next(left) for _ in some] for some in candidates]

    def _languages(self, source: str | None, target: str | None) -> dict[str, str]:
        """What a reverse model for several languages is told; one for a single direction is told, too, and refuses a
        wrong one."""
        return {key: code for key, code in (("source", target), ("target", source)) if code}


def _mean(score: Any) -> float:
    """Per token; an empty text has none."""
    return float(score.log_probability) / max(1, len(score.log_probabilities))
