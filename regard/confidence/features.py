"""What the confidence of a word and of a sentence is computed from: numbers made of token log-probabilities.

Most are logits, or logarithms, so that a weighted sum of them is the logit of a probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from regard.confidence.words import ScoredWord, words_of

LOWEST = 1e-4
"""Probabilities are kept away from 0 and 1 by this, which bounds their logits."""
WORD_FEATURES = (
    "least_likely_token", "word", "sentence", "next_word", "word_before", "letters", "tokens", "position", "copied",
)  # fmt: skip
SENTENCE_FEATURES = ("mean", "words")


def logit(log_probability: float) -> float:
    probability = min(max(math.exp(log_probability), LOWEST), 1 - LOWEST)
    return math.log(probability / (1 - probability))


def word_features(
    source: str, text: str, words: Sequence[ScoredWord], log_probabilities: Sequence[float]
) -> list[list[float]]:
    """A row for each word (WORD_FEATURES); `log_probabilities` are those of all tokens of the sentence."""
    mean = fmean(log_probabilities)
    least = [logit(min(word.log_probabilities)) for word in words]
    end = logit(log_probabilities[-1])
    known = set(words_of(source))
    return [
        [
            least[number],
            logit(sum(word.log_probabilities)),
            mean,
            least[number + 1] if number + 1 < len(words) else end,
            least[number - 1] if number else 3.0,
            math.log(word.end - word.start),
            float(len(word.log_probabilities)),
            number / len(words),
            float(text[word.start : word.end].casefold() in known),
        ]
        for number, word in enumerate(words)
    ]


def sentence_features(words: Sequence[ScoredWord], log_probabilities: Sequence[float]) -> list[float]:
    """The row of a sentence (SENTENCE_FEATURES): the mean log-probability of its tokens, and the mean logit of its
    words."""
    least = [min(word.log_probabilities) for word in words] or [min(log_probabilities)]
    return [fmean(log_probabilities), fmean(map(logit, least))]
