"""Words as vectors, and which of them point the same way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cached_property

import numpy as np

from regard.errors import UserError


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """The sum of a_i b_i: large when both are long, too."""
    return float(sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True)))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """a.b / (|a| |b|), from -1 (opposite) over 0 (nothing in common) to 1 (the same direction), whatever their lengths.

    A vector of zeros points nowhere: its cosine is 0 with everything.
    """
    lengths = (dot(a, a) * dot(b, b)) ** 0.5
    return dot(a, b) / lengths if lengths else 0.0


class Vectors:
    """A vector for each word."""

    def __init__(self, words: Sequence[str], values: np.ndarray) -> None:
        self.words, self.values = list(words), values
        self.places = {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.places

    def __getitem__(self, word: str) -> np.ndarray:
        if word not in self.places:
            alike = get_close_matches(word, [known for known in self.words if known[:1] == word[:1]], n=1)
            meant = f"; did you mean '{alike[0]}'?" if alike else ""
            raise UserError(f"no vector for '{word}' among {len(self):,} words{meant}")
        return self.values[self.places[word]]

    @property
    def width(self) -> int:
        return self.values.shape[1]

    @cached_property
    def directions(self) -> np.ndarray:
        """The vectors with length 1, so that products are cosines; one of zeros stays."""
        lengths = np.linalg.norm(self.values, axis=1, keepdims=True)
        return self.values / np.where(lengths > 0, lengths, 1)

    def near(self, word: str, count: int = 10) -> list[tuple[str, float]]:
        """The words whose vectors point most nearly the same way, with their cosines."""
        self[word]
        return self._nearest(self.directions[self.places[word]], count, [word])

    def analogy(self, a: str, b: str, c: str, count: int = 10) -> list[tuple[str, float]]:
        """What is to c as b is to a: the words nearest to b - a + c, which are none of the three themselves."""
        for word in (a, b, c):
            self[word]
        one, other, third = (self.directions[self.places[word]] for word in (a, b, c))
        wanted = other - one + third
        return self._nearest(wanted / (np.linalg.norm(wanted) or 1), count, [a, b, c])

    def _nearest(self, direction: np.ndarray, count: int, without: Iterable[str]) -> list[tuple[str, float]]:
        cosines = self.directions @ direction
        cosines[[self.places[word] for word in without]] = -np.inf
        best = np.argsort(-cosines, kind="stable")[:count]
        return [(self.words[i], float(cosines[i])) for i in best.tolist() if np.isfinite(cosines[i])]
