"""Sentence chrF and BLEU of every text of a list against every other: sacrebleu's numbers, many times as fast.

n-grams are counted once per text, and the matches of one text with all others are a sum of minima over their counts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError, suggestion

Matrix = NDArray[np.float64]
CHARACTERS, BETA = 6, 2
"""chrF2: n-grams of up to 6 characters, recall weighted twice."""
WORDS = 4
METRICS = ("chrf", "bleu")


def pairwise_scores(texts: Sequence[str], metric: str = "chrf") -> Matrix:
    """Entry (i, j) is the score, 0 to 100, of text i with text j as its reference."""
    if metric not in METRICS:
        raise UserError(f"the metric '{metric}' is not known{suggestion(metric, METRICS)}; use {' or '.join(METRICS)}")
    scores: Callable[[Sequence[str]], Matrix] = _chrf if metric == "chrf" else _bleu
    return scores(texts)


def _chrf(texts: Sequence[str]) -> Matrix:
    """The F-score of mean precision and recall over the orders that both texts have; white space does not count."""
    precision, recall, orders = np.zeros((3, len(texts), len(texts)))
    for matches, lengths in _orders([tuple("".join(text.split())) for text in texts], CHARACTERS):
        both = (lengths[:, None] > 0) & (lengths > 0)
        precision += matches / np.maximum(lengths, 1)[:, None]
        recall += matches / np.maximum(lengths, 1)
        orders += both
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    weighted = BETA**2 * precision + recall
    score: Matrix = 100 * (1 + BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)
    return score


def _bleu(texts: Sequence[str]) -> Matrix:
    """The geometric mean of the precisions times the brevity penalty. An order without matches counts as half a match,
    the next one as a quarter, ...; orders that the hypothesis is too short for do not count."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    words = [tuple(Tokenizer13a()(text.rstrip()).split()) for text in texts]
    logs, used, halvings, any_match = np.zeros((4, len(texts), len(texts)))
    for matches, lengths in _orders(words, WORDS):
        there = np.broadcast_to(lengths[:, None] > 0, matches.shape)
        halvings += there & (matches == 0)
        precision = np.where(matches > 0, matches, 0.5**halvings) / np.maximum(lengths, 1)[:, None]
        logs += np.where(there, np.log(precision), 0)
        used, any_match = used + there, any_match + matches
    size = np.array([len(one) for one in words], float)
    brevity = np.minimum(0, 1 - size / np.maximum(size, 1)[:, None])
    score: Matrix = np.where(any_match > 0, 100 * np.exp(logs / np.maximum(used, 1) + brevity), 0)
    return score


def _orders(rows: Sequence[tuple[str, ...]], longest: int) -> list[tuple[Matrix, Matrix]]:
    """For n = 1, 2, ...: the n-grams that each two rows have in common, and how many each row has."""
    return [_common([[row[i : i + n] for i in range(len(row) - n + 1)] for row in rows]) for n in range(1, longest + 1)]


def _common(rows: Sequence[Sequence[Hashable]]) -> tuple[Matrix, Matrix]:
    numbers: dict[Hashable, int] = {}
    coded = [[numbers.setdefault(one, len(numbers)) for one in row] for row in rows]
    counts = np.stack([np.bincount(np.array(row, np.int64), minlength=len(numbers)) for row in coded])
    matches = np.stack([np.minimum(row, counts).sum(1) for row in counts])
    return matches.astype(float), counts.sum(1).astype(float)
