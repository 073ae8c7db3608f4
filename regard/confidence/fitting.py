"""Finds the weights of a calibration: logistic regressions of "is right" on the features of translations.

A word is right if it occurs in the reference, wherever it stands there and as often. A sentence is right if its chrF
against the reference is at least RIGHT_CHRF.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regard.confidence.calibration import Calibration, Logistic
from regard.confidence.features import sentence_features, word_features
from regard.confidence.words import scored_words, words_found
from regard.errors import UserError

if TYPE_CHECKING:
    import numpy as np

RIGHT_CHRF = 50.0
FEWEST = 50
"""Sentences that a calibration needs."""
PENALTY = 1.0
"""On the squares of the weights of standardised features."""
STEPS = 50
TOLERANCE = 1e-9


@dataclass
class Examples:
    """Features of words and sentences, and whether they are right."""

    words: list[list[float]] = field(default_factory=list)
    words_right: list[bool] = field(default_factory=list)
    sentences: list[list[float]] = field(default_factory=list)
    sentences_right: list[bool] = field(default_factory=list)

    def add(
        self, source: str, text: str, surfaces: Sequence[str], log_probabilities: Sequence[float], reference: str
    ) -> None:
        """A translation and its reference; one without words says nothing."""
        words = scored_words(text, surfaces, log_probabilities)
        if not words:
            return
        self.words += word_features(source, text, words, log_probabilities)
        self.words_right += words_found([text[word.start : word.end].casefold() for word in words], reference)
        self.sentences.append(sentence_features(words, log_probabilities))
        self.sentences_right.append(is_right(text, reference))

    def fit(self) -> Calibration:
        if len(self.sentences) < FEWEST:
            raise UserError(f"a calibration needs {FEWEST} sentences with words, not {len(self.sentences)}; give more")
        word = fitted(self.words, self.words_right)
        return Calibration(word, fitted(self.sentences, self.sentences_right), len(self.sentences))

    def confidences(self, calibration: Calibration) -> tuple[list[float], list[float]]:
        """Of the words, and of the sentences."""
        words = [calibration.word.probability(row) for row in self.words]
        return words, [calibration.sentence.probability(row) for row in self.sentences]


def is_right(text: str, reference: str) -> bool:
    return _chrf(text, reference) >= RIGHT_CHRF


def _chrf(text: str, reference: str) -> float:
    from sacrebleu.metrics.chrf import CHRF

    return float(CHRF().sentence_score(text, [reference]).score)


def fitted(features: Iterable[Sequence[float]], right: Iterable[bool]) -> Logistic:
    """The logistic regression by Newton's method. Its weights are those of the features as they are."""
    import numpy as np

    x, y = np.array(list(features), np.float64), np.array(list(right), np.float64)
    mean, deviation = x.mean(0), x.std(0)
    deviation[deviation < 1e-9] = 1.0
    rows = np.column_stack([(x - mean) / deviation, np.ones(len(x))])
    penalties = np.full(rows.shape[1], PENALTY)
    penalties[-1] = PENALTY / 100  # keeps the bias finite where all are right
    weights: np.ndarray = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        probability = 1 / (1 + np.exp(-rows @ weights))
        curvature = (rows * (probability * (1 - probability))[:, None]).T @ rows + np.diag(penalties)
        step = np.linalg.solve(curvature, rows.T @ (y - probability) - penalties * weights)
        weights += step
        if np.abs(step).max() < TOLERANCE:
            break
    scaled = weights[:-1] / deviation
    return Logistic(tuple(scaled.tolist()), float(weights[-1] - scaled @ mean))
