"""A small synthetic language, the same every time."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from regard.data.tokenizer.subword import Subword

SYLLABLES = ["ba", "lé", "mi", "tor", "un", "çe", "ka", "ris", "do", "ven", "eau", "st"]


def sentences(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)

    def word() -> str:
        return "".join(draw.choices(SYLLABLES, k=draw.randint(1, 3)))

    return [" ".join(word() for _ in range(draw.randint(2, 9))) + draw.choice(["", ".", " !"]) for _ in range(count)]


@pytest.fixture(scope="session")
def make_pairs() -> Callable[[int], list[tuple[str, str]]]:
    all_pairs = list(zip(sentences(17_000, 1), sentences(17_000, 2), strict=True))  # more than one chunk
    return lambda count: all_pairs[:count]


@pytest.fixture(scope="session")
def text() -> list[str]:
    return sentences(3000)


@pytest.fixture(scope="session")
def subword(text: list[str]) -> Subword:
    return Subword.train(text, seed=1, size=500)
