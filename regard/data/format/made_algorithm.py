"""Synthetic: digit strings to copy, reverse or add, the algorithmic tasks of the Universal Transformer (Dehghani et al.
2019, 3.3). Digits are separated by spaces, so that each is a word."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from regard.data.format._base import Example, Format
from regard.data.format._made import check_made, random_for
from regard.errors import UserError, suggestion

__all__ = ["MadeAlgorithm", "algorithm_pairs"]

Digits = Sequence[str]
LONGEST = 4000
"""Digits of a number; Python refuses to parse much longer ones."""
MOST_DIGITS = 100_000_000
MOST_VALID = 1000
"""Most examples for validation and test."""


def _digits(random: np.random.Generator, length: int) -> Digits:
    return [str(digit) for digit in random.integers(10, size=length)]


def _copy(random: np.random.Generator, length: int) -> tuple[Digits, Digits]:
    digits = _digits(random, length)
    return digits, digits


def _reverse(random: np.random.Generator, length: int) -> tuple[Digits, Digits]:
    digits = _digits(random, length)
    return digits, digits[::-1]


def _addition(random: np.random.Generator, length: int) -> tuple[Digits, Digits]:
    """Two numbers without leading zeros; the longer one has `length` digits."""
    lengths = random.permutation([length, int(random.integers(1, length + 1))])
    one, other = (int("".join([str(random.integers(1, 10)), *_digits(random, size - 1)])) for size in lengths.tolist())
    return [*str(one), "+", *str(other)], str(one + other)


TASKS: dict[str, Callable[[np.random.Generator, int], tuple[Digits, Digits]]] = {
    "copy": _copy,
    "reverse": _reverse,
    "addition": _addition,
}


def algorithm_pairs(
    task: str, count: int, random: np.random.Generator, shortest: int, longest: int
) -> Iterator[tuple[str, str]]:
    """`count` pairs such as ("3 1 4", "4 1 3"), with lengths uniform from `shortest` to `longest`."""
    for _ in range(count):
        source, target = TASKS[task](random, int(random.integers(shortest, longest + 1)))
        yield " ".join(source), " ".join(target)


class MadeAlgorithm(Format):
    """copy: "3 1 4" -> "3 1 4"; reverse: "3 1 4" -> "4 1 3"; addition: "1 9 + 5" -> "2 4".

    Each part has its own random generator, but there are so few short strings that parts overlap.
    """

    def __init__(
        self, task: str = "copy", count: int = 10000, seed: int = 1, shortest: int = 1, longest: int = 10
    ) -> None:
        check_made(count, seed)
        if task not in TASKS:
            raise UserError(f"data.format.task: no '{task}'{suggestion(task, TASKS)}")
        if not 1 <= shortest <= longest <= LONGEST:
            raise UserError(f"data.format: wants 1 <= shortest ({shortest}) <= longest ({longest}) <= {LONGEST}")
        if count * longest > MOST_DIGITS:
            raise UserError(f"data.format.count: {count} strings of up to {longest} digits are too many; use fewer")
        self.task, self.count, self.seed, self.shortest, self.longest = task, count, seed, shortest, longest

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        random = random_for(self.seed, part)
        count = self.count if part == "train" else min(self.count, MOST_VALID)
        return [Example(*pair) for pair in algorithm_pairs(self.task, count, random, self.shortest, self.longest)]
