"""CIDEr-D and METEOR's exact matches: how near captions are to what people wrote, 0 to 100 and more.

Words are compared in lowercase and without punctuation. BLEU is in writing.py.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from operator import itemgetter

from regard.errors import UserError

LONGEST = 4
"""n-grams of one to four words."""
SIGMA = 6.0
"""The spread of the penalty on a difference in length."""
_WORD = re.compile(r"\w+(?:['\u2019]\w+)*")

Counts = Counter[tuple[str, ...]]


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def cider(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """CIDEr-D (Vedantam, Zitnick and Parikh 2015), 100 times the mean over pictures of a score from 0 to 10.

    Document frequencies are those of these references, so scores of different sets do not compare; and of one picture
    every n-gram is common, so its score is 0.
    """
    _check(outputs, references)
    told = [[_n_grams(text) for text in some] for some in references]
    pictures = Counter(gram for some in told for gram in set().union(*some))
    rarity = {gram: math.log(len(references)) - math.log(count) for gram, count in pictures.items()}
    unseen = math.log(len(references))
    total = 0.0
    for output, some in zip(outputs, told):
        mine = _n_grams(output)
        total += sum(_similarity(mine, other, rarity, unseen) for other in some) / len(some)
    return 100 * 10 * total / len(outputs)


def _n_grams(text: str) -> Counts:
    found = words(text)
    return Counter(tuple(found[i : i + n]) for n in range(1, LONGEST + 1) for i in range(len(found) - n + 1))


def _similarity(mine: Counts, other: Counts, rarity: dict[tuple[str, ...], float], unseen: float) -> float:
    """The mean over n of the cosine of tf-idf vectors, in which no n-gram counts more often than it was written by a
    person, times a Gaussian of the difference in length (in pairs of words, as the authors' program counts)."""
    total = 0.0
    for n in range(1, LONGEST + 1):
        weights = [
            {gram: count * rarity.get(gram, unseen) for gram, count in side.items() if len(gram) == n}
            for side in (mine, other)
        ]
        norms = [math.sqrt(sum(weight * weight for weight in side.values())) for side in weights]
        if all(norms):
            shared = ((weight, weights[1].get(gram, 0.0)) for gram, weight in weights[0].items())
            common = sum(min(one, other) * other for one, other in shared)
            total += common / (norms[0] * norms[1])
    lengths = [sum(count for gram, count in side.items() if len(gram) == 2) for side in (mine, other)]
    return total / LONGEST * math.exp(-((lengths[0] - lengths[1]) ** 2) / (2 * SIGMA**2))


def meteor_exact(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """METEOR with its exact module alone (Banerjee and Lavie 2005): no stems, no synonyms, so lower than METEOR.

    The best of a picture's references counts: 10 P R / (R + 9 P) * (1 - 0.5 (chunks / matches) ** 3), in percent.
    """
    _check(outputs, references)
    best = (max(_meteor(words(output), words(text)) for text in some) for output, some in zip(outputs, references))
    return 100 * sum(best) / len(outputs)


def _meteor(output: list[str], reference: list[str]) -> float:
    chunks, matches = _aligned(output, reference)
    if not matches:
        return 0.0
    precision, recall = matches / len(output), matches / len(reference)
    mean = 10 * precision * recall / (recall + 9 * precision)
    return mean * (1 - 0.5 * (chunks / matches) ** 3)


def _aligned(output: list[str], reference: list[str]) -> tuple[int, int]:
    """Chunks and matches when equal words are matched, the longest common stretch first."""
    mine: list[str | None] = list(output)
    other: list[str | None] = list(reference)
    chunks = matches = 0
    while True:
        starts = ((i, j) for i in range(len(mine)) for j in range(len(other)))
        length, i, j = max(
            ((_stretch(mine[i:], other[j:]), i, j) for i, j in starts), key=itemgetter(0), default=(0, 0, 0)
        )
        if not length:
            return chunks, matches
        mine[i : i + length] = other[j : j + length] = [None] * length  # matched once
        chunks, matches = chunks + 1, matches + length


def _stretch(some: list[str | None], others: list[str | None]) -> int:
    """How many words are equal from the start."""
    equal = (one is not None and one == other for one, other in zip(some, others))
    return sum(1 for _ in takewhile(bool, equal))


def _check(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if not outputs or len(outputs) != len(references) or not all(references):
        raise UserError(f"{len(outputs)} outputs but {sum(map(bool, references))} have references; each needs its own")
