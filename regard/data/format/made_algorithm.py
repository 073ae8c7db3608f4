"""Made here: strings of digits and what an algorithm makes of them, as the Universal Transformer was tried on
(Dehghani et al. 2019, 3.3). Digits stand apart, so that each is a word."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from regard.data.format._base import Example, Format
from regard.errors import UserError, suggestion

__all__ = ["MadeAlgorithm", "algorithm_pairs"]

Digits = list[str]


def _digits(pick: random.Random, length: int) -> Digits:
    return pick.choices("0123456789", k=length)


def _copy(pick: random.Random, length: int) -> tuple[Digits, Digits]:
    digits = _digits(pick, length)
    return digits, digits


def _reverse(pick: random.Random, length: int) -> tuple[Digits, Digits]:
    digits = _digits(pick, length)
    return digits, digits[::-1]


def _addition(pick: random.Random, length: int) -> tuple[Digits, Digits]:
    """Two numbers as people write them, the longer one with that many digits."""
    lengths = [length, pick.randint(1, length)]
    pick.shuffle(lengths)
    one, other = (pick.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits) for digits in lengths)
    return [*str(one), "+", *str(other)], [*str(one + other)]


TASKS: dict[str, Callable[[random.Random, int], tuple[Digits, Digits]]] = {
    "copy": _copy,
    "reverse": _reverse,
    "addition": _addition,
}
LONGEST = 4000
"""Digits of a number: Python itself writes none that is much longer."""


def algorithm_pairs(task: str, count: int, seed: int | str, shortest: int, longest: int) -> Iterator[tuple[str, str]]:
    """So many pairs such as ("3 1 4", "4 1 3"); every length from shortest to longest is as likely as every other."""
    pick = random.Random(seed)
    for _ in range(count):
        given, wanted = TASKS[task](pick, pick.randint(shortest, longest))
        yield " ".join(given), " ".join(wanted)


class MadeAlgorithm(Format):
    """copy: "3 1 4" -> "3 1 4"; reverse: "3 1 4" -> "4 1 3"; addition: "1 9 + 5" -> "2 4".

    Each part has `count` examples, drawn by a seed of its own: short strings come up in more than one part.
    """

    def __init__(
        self, task: str = "copy", count: int = 10000, seed: int = 1, shortest: int = 1, longest: int = 10
    ) -> None:
        if task not in TASKS:
            raise UserError(f"data.format.task: no '{task}'{suggestion(task, TASKS)}")
        if not 1 <= shortest <= longest <= LONGEST:
            raise UserError(f"data.format: wants 1 <= shortest ({shortest}) <= longest ({longest}) <= {LONGEST}")
        if not 1 <= count * longest <= 10**9:
            raise UserError(f"data.format.count: {count} examples are none, or more than memory holds; use fewer")
        self.task, self.count, self.seed, self.shortest, self.longest = task, count, seed, shortest, longest

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        seed = f"{self.seed} {part}"
        return [Example(*pair) for pair in algorithm_pairs(self.task, self.count, seed, self.shortest, self.longest)]
