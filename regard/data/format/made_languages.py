"""Synthetic: parallel text between made languages, each with words and a word order of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.format._base import Example
from regard.data.format._languages import MadeInLanguages
from regard.data.format._made import check_made, random_for

__all__ = ["MadeLanguages"]

ONSETS = "bdfgklmnprst"
"""One word of each language begins with each of these."""
VOWELS = "aeiou"
MOST_VALID = 100


class MadeLanguages(MadeInLanguages):
    """Sentences of `shortest` to `longest` words. Any code is a language: its letters decide how its words end and
    whether their order is kept, reversed or rotated. As plain examples the sentences go from en to de."""

    def __init__(self, count: int = 2000, shortest: int = 2, longest: int = 4, seed: int = 1) -> None:
        check_made(count, seed)
        self.count, self.shortest, self.longest, self.seed = count, shortest, max(shortest, longest), seed

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        return [Example(*pair) for pair in self.between("en", "de", part)]

    def between(self, source: str, target: str, part: str) -> list[tuple[str, str]]:
        # An entry and its reverse have the same sentences; other pairs of languages have others.
        pair = int.from_bytes("-".join(sorted((source, target))).encode()[:12], "big")
        random = np.random.default_rng([pair, int(random_for(self.seed, part).integers(2**63))])
        words = {code: _words(code) for code in (source, target)}
        made = []
        for _ in range(self.count if part == "train" else min(self.count, MOST_VALID)):
            meaning = random.integers(len(ONSETS), size=int(random.integers(self.shortest, self.longest + 1))).tolist()
            made.append((_sentence(source, words[source], meaning), _sentence(target, words[target], meaning)))
        return made


def _words(code: str) -> list[str]:
    random = np.random.default_rng(list(code.encode()))
    endings = ["".join(VOWELS[i] + c for i, c in zip(random.integers(5, size=2), code[:2])) for _ in ONSETS]
    return [onset + ending for onset, ending in zip(ONSETS, endings)]


def _sentence(code: str, words: Sequence[str], meaning: Sequence[int]) -> str:
    order = sum(code.encode()) % 3
    turned = [meaning[::-1], meaning, [*meaning[1:], *meaning[:1]]][order]
    return " ".join(words[i] for i in turned)
