"""Synthetic: random DNA sequences, half of them with a motif."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.format._base import Example, Format
from regard.data.format._made import check_made, random_for
from regard.errors import UserError

__all__ = ["MadeDna"]

BASES = np.array(list("ACGT"))


class MadeDna(Format):
    """Example(sequence, "+" or "-"): about half hold the motif once, at a random position, the others never.

    With `mark`, Example(letters, tags): the first base of the motif is tagged `site`, all others `O`.
    """

    def __init__(
        self, count: int = 600, seed: int = 1, length: int = 40, motif: str = "TATAAT", mark: bool = False
    ) -> None:
        check_made(count, seed)
        if not motif or set(motif) - set(BASES):
            raise UserError(f"data.format.motif: wants letters of A, C, G, T, not '{motif}'")
        longest = min(10_000, 2 * 4 ** len(motif))  # longer ones would hold a short motif by chance
        if not len(motif) <= length <= longest:
            raise UserError(f"data.format.length: wants {len(motif)} to {longest:,} bases, not {length}")
        self.count, self.seed, self.length, self.motif, self.mark = count, seed, length, motif, mark

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        random = random_for(self.seed, part)
        return [self._one(random) for _ in range(self.count if part == "train" else max(20, self.count // 5))]

    def _one(self, random: np.random.Generator) -> Example:
        has, start = random.random() < 0.5, int(random.integers(self.length - len(self.motif) + 1))
        while True:
            sequence = "".join(random.choice(BASES, self.length))
            if has:
                sequence = sequence[:start] + self.motif + sequence[start + len(self.motif) :]
            if [i for i in range(self.length) if sequence.startswith(self.motif, i)] == [start] * has:
                break
        if not self.mark:
            return Example(sequence, "+" if has else "-")
        return Example(list(sequence), ["site" if has and i == start else "O" for i in range(self.length)])
