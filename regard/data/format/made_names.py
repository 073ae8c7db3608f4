"""Synthetic: sentences with names of people and places, which only the context tells apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.format._base import Example, Format
from regard.data.format._made import check_made, random_for

__all__ = ["MadeNames"]

FIRST = ["Harry", "Hermione", "Ada", "Alan", "Grace", "Noam", "Emmy", "Georgia", "Paris", "Sydney"]
LAST = ["Potter", "Granger", "Turing", "Hopper", "London", "Noether", "Washington", "Jordan"]
CITIES = ["London", "Paris", "Washington", "Sydney", "Geneva", "New York", "Rio de Janeiro", "Tehran", "Jordan"]
PATTERNS = [
    "Yesterday , <person> met <person> .",
    "<person> lives in <location> now .",
    "The train to <location> was late again .",
    "Have you seen <person> ?",
    "<person> and <person> flew from <location> to <location> .",
    "It rains a lot in <location> .",
    "I asked <person> to call me back .",
    "Nobody was at home .",
    "The film begins at eight .",
]


class MadeNames(Format):
    """Example(words, tags) with B-person, I-person, B-location, I-location and O. Some words are both kinds."""

    def __init__(self, count: int = 600, seed: int = 1) -> None:
        check_made(count, seed)
        self.count, self.seed = count, seed

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        random = random_for(self.seed, part)
        return [_sentence(random) for _ in range(self.count if part == "train" else max(20, self.count // 5))]


def _sentence(random: np.random.Generator) -> Example:
    words: list[str] = []
    tags: list[str] = []
    for word in PATTERNS[random.integers(len(PATTERNS))].split():
        if not word.startswith("<"):
            words.append(word)
            tags.append("O")
            continue
        kind = word[1:-1]
        if kind == "location":
            name = CITIES[random.integers(len(CITIES))].split()
        else:
            name = [FIRST[random.integers(len(FIRST))]]
            if random.random() < 0.7:
                name.append(LAST[random.integers(len(LAST))])
        words += name
        tags += [f"B-{kind}", *(f"I-{kind}" for _ in name[1:])]
    return Example(words, tags)
