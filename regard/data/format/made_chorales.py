"""Synthetic: four-part hymns in a few keys on the chords I, IV, V and vi."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.format._base import Example, Format
from regard.data.format._made import check_made, random_for
from regard.data.music import write_steps

__all__ = ["MadeChorales"]

CHORDS = {"I": (0, 7, 12, 16), "IV": (5, 9, 12, 17), "V": (7, 11, 14, 19), "vi": (9, 12, 16, 21)}
"""Semitones above the key, from the bass to the soprano."""
FOLLOWS = {"I": ("I", "IV", "V", "vi"), "IV": ("I", "V"), "V": ("I", "vi"), "vi": ("IV", "V")}


class MadeChorales(Format):
    """`count` pieces of 4 to 12 chords that each last one or two steps; they begin and end on I.

    The possible successors of a chord are fixed; which one follows, and for how long, is random. Each part has its own
    random generator.
    """

    def __init__(self, count: int = 200, seed: int = 1) -> None:
        check_made(count, seed)
        self.count, self.seed = count, seed

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        random = random_for(self.seed, part)
        return [Example("", self._piece(random)) for _ in range(self.count)]

    def _piece(self, random: np.random.Generator) -> str:
        key = int(random.integers(48, 56))
        chords = ["I"]
        for _ in range(random.integers(2, 11)):
            following = FOLLOWS[chords[-1]]
            chords.append(following[random.integers(len(following))])
        steps = [chord for name in [*chords, "I"] for chord in [CHORDS[name]] * random.integers(1, 3)]
        return write_steps([key + above for above in chord] for chord in steps)
