"""Word vectors with cosine similarity, nearest neighbours and analogies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cached_property

import numpy as np

from regard.errors import UserError


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """The dot product, which also grows with the lengths of the vectors."""
    return float(sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True)))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """a.b / (|a| |b|): -1 for opposite, 0 for orthogonal, 1 for equal directions, whatever the lengths.

    The cosine with a zero vector is 0.
    """
    lengths = (dot(a, a) * dot(b, b)) ** 0.5
    return dot(a, b) / lengths if lengths else 0.0


class Vectors:
    """A vector per word."""

    def __init__(self, words: Sequence[str], values: np.ndarray) -> None:
        self.words, self.values = list(words), values
        self.indices = {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.indices

    def __getitem__(self, word: str) -> np.ndarray:
        if word not in self.indices:
            alike = get_close_matches(word, [known for known in self.words if known[:1] == word[:1]], n=1)
            meant = f"; did you mean '{alike[0]}'?" if alike else ""
            raise UserError(f"no vector for '{word}' among {len(self):,} words{meant}")
        return self.values[self.indices[word]]

    @property
    def width(self) -> int:
        return self.values.shape[1]

    @cached_property
    def directions(self) -> np.ndarray:
        """The vectors scaled to length 1, so that dot products are cosines; zero vectors stay zero."""
        lengths = np.linalg.norm(self.values, axis=1, keepdims=True)
        return self.values / np.where(lengths > 0, lengths, 1)

    def near(self, word: str, count: int = 10) -> list[tuple[str, float]]:
        """The nearest words by cosine, with their cosines."""
        self[word]
        return self._nearest(self.directions[self.indices[word]], count, [word])

    def analogy(self, a: str, b: str, c: str, count: int = 10) -> list[tuple[str, float]]:
        """The word that is to c as b is to a: the nearest words to b - a + c, excluding the three."""
        for word in (a, b, c):
            self[word]
        one, other, third = (self.directions[self.indices[word]] for word in (a, b, c))
        query = other - one + third
        return self._nearest(query / (np.linalg.norm(query) or 1), count, [a, b, c])

    def _nearest(self, direction: np.ndarray, count: int, without: Iterable[str]) -> list[tuple[str, float]]:
        cosines = self.directions @ direction
        cosines[[self.indices[word] for word in without]] = -np.inf
        best = np.argsort(-cosines, kind="stable")[:count]
        return [(self.words[i], float(cosines[i])) for i in best.tolist() if np.isfinite(cosines[i])]
