"""A small made-up language to learn from, the same every time."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from regard.data.tokenizer.subword import Subword

SYLLABLES = ["ba", "lé", "mi", "tor", "un", "çe", "ka", "ris", "do", "ven", "eau", "st"]


def sentences(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(400)]
    return [
        " ".join(draw.choices(words, k=draw.randint(2, 12))) + draw.choice([".", " !", "?", ""]) for _ in range(count)
    ]


@pytest.fixture(scope="session")
def make_pairs() -> Callable[[int], list[tuple[str, str]]]:
    return lambda count: list(zip(sentences(count, 1), sentences(count, 2), strict=True))


@pytest.fixture(scope="session")
def text() -> list[str]:
    return sentences(3000)


@pytest.fixture(scope="session")
def subword(text: list[str]) -> Subword:
    return Subword.train(text, seed=1, size=500)
