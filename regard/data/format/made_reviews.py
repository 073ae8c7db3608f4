"""Synthetic: one-sentence reviews with words of praise and blame among neutral ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from regard.data.format._base import Example, Format
from regard.data.format._made import check_made

__all__ = ["MadeReviews"]

PRAISE = ["wonderful", "moving", "clever", "funny", "brilliant", "honest"]
BLAME = ["boring", "clumsy", "empty", "loud", "awful", "stale"]
OTHER = ["the", "film", "a", "story", "with", "actors", "and", "music", "is", "scene", "very", "of", "its", "end"]


class MadeReviews(Format):
    """A "positive" review has one more word of praise than of blame, a "negative" one the reverse."""

    def __init__(self, count: int = 1000, seed: int = 1):
        check_made(count, seed)
        self.count, self.seed = count, seed

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        pick = random.Random(f"{self.seed} {part}")
        return [self._one(pick) for _ in range(self.count if part == "train" else max(20, self.count // 5))]

    def _one(self, pick: random.Random) -> Example:
        positive, balance = pick.random() < 0.5, pick.randint(0, 1)
        more, fewer = (PRAISE, BLAME) if positive else (BLAME, PRAISE)
        words = pick.choices(more, k=balance + 1) + pick.choices(fewer, k=balance) + pick.choices(OTHER, k=6)
        pick.shuffle(words)
        return Example(" ".join(words), "positive" if positive else "negative")
