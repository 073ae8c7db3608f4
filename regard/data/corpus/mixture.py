"""Draws training pairs from the sections of a pack: each entry of `[[data.pairs]]` in each direction is a section.

An epoch draws a fixed number of pairs from each section, which its weight and the temperature decide, so a small
section may come several times in an epoch and a large one in part. A section is gone through in one random order, and
each epoch goes on where the one before it ended. Everything is computed from epoch and position; nothing is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.shuffling import permuted


@dataclass(frozen=True)
class Section:
    """Rows of a pack in one direction, in ranges of (first row, number of rows)."""

    direction: tuple[str, str]
    weight: float
    ranges: Sequence[tuple[int, int]]
    copies: bool = False
    """Made pairs to copy, not text: they have a share of their own."""

    @property
    def pairs(self) -> int:
        return sum(count for _, count in self.ranges)


class Mixture:
    def __init__(self, sections: Sequence[Section], temperature: float, seed: int, copies: float = 0.0) -> None:
        """`copies` is the share of the sections of copies in all that is drawn, in each direction alike."""
        self.sections, self._seed = [one for one in sections if copies or not one.copies], seed
        text = [one for one in self.sections if not one.copies]
        self.draws = _draws(text, temperature)
        of: Counter[tuple[str, str]] = Counter()
        for section, draws in zip(text, self.draws):
            of[section.direction] += draws
        made = [one for one in self.sections if one.copies]
        self.sections = [*text, *made]
        self.draws += [max(1, round(of[one.direction] * copies / (1 - copies))) for one in made]
        """Pairs that an epoch draws from each section."""
        self._ends = np.cumsum(self.draws)

    def __len__(self) -> int:
        """Pairs of an epoch."""
        return int(self._ends[-1])

    def rows(self, places: np.ndarray, epoch: int) -> np.ndarray:
        """The rows of the pack at some places of an epoch."""
        found = np.empty(len(places), dtype=np.int64)
        owners = np.searchsorted(self._ends, places, side="right")
        for number, section in enumerate(self.sections):
            here = np.flatnonzero(owners == number)
            if len(here) == 0:
                continue
            draws, pairs = self.draws[number], section.pairs
            turn = places[here].astype(np.int64) - (int(self._ends[number]) - draws)
            at = permuted((turn + epoch * draws) % pairs, pairs, self._seed, 1, number)
            firsts, counts = np.array(section.ranges, dtype=np.int64).T
            before = np.concatenate([[0], counts.cumsum()])
            range_ = np.searchsorted(before, at, side="right") - 1
            found[here] = firsts[range_] + at - before[range_]
        return found

    def shares(self) -> dict[tuple[str, str], float]:
        """The share of each direction in what is drawn."""
        drawn: Counter[tuple[str, str]] = Counter()
        for section, draws in zip(self.sections, self.draws):
            drawn[section.direction] += draws
        return {direction: count / len(self) for direction, count in drawn.items()}


def _draws(sections: Sequence[Section], temperature: float) -> list[int]:
    """Weighted sizes, scaled so that the directions have shares of size ** (1 / temperature); their sum stays."""
    sizes = [section.weight * section.pairs for section in sections]
    of: dict[tuple[str, str], float] = {}
    for section, size in zip(sections, sizes):
        of[section.direction] = of.get(section.direction, 0.0) + size
    flattened = {direction: size ** (1 / temperature) for direction, size in of.items()}
    scale = sum(sizes) / sum(flattened.values())
    factors = {direction: scale * flattened[direction] / of[direction] for direction in of}
    return [max(1, round(size * factors[section.direction])) for section, size in zip(sections, sizes)]
