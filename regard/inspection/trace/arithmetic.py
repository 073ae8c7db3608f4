"""One attention followed by its numbers: stage after stage as plain data, each with its formula and all its values.

record/arithmetic computes the numbers, draw/arithmetic.py draws them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

MASKED = "masked"
"""The note of a number that counts for nothing, since it may not be seen."""
TERMS = 3
"""Of a long sum so many terms are written out."""


@dataclass
class Row:
    """A vector, or one number of a token."""

    label: str
    values: np.ndarray
    symbol: str = ""
    """What its numbers are called: `q` has the numbers q[0], q[1], ...; without it they have the row's label."""
    note: str = ""
    how: list[str] = field(default_factory=list)
    """How each value came about, with the numbers put in; empty where that is not told."""
    key: int | None = None
    """The token, of those looked at, that it belongs to."""

    def named(self, place: int) -> str:
        """What one of its numbers is called."""
        index = f"[{place}]" if len(self.values) > 1 else ""
        of = f" of {self.label}" if self.symbol and self.symbol != self.label else ""
        return f"{self.symbol or self.label}{index}{of}"


@dataclass
class Stage:
    """One step of the calculation."""

    name: str
    formula: str
    sentence: str
    rows: list[Row]
    note: str = ""
    """What is to be said of all rows together: that they sum to one, what the mask hid."""


@dataclass
class Calculation:
    """How one token looked through one head: from what went in to what came out."""

    path: str
    """The module, as the model names it."""
    kind: str
    """Which attention: shown.CROSS, READING or WRITING."""
    layer: int
    head: int
    heads: int
    position: int
    query: str
    """The token that looked."""
    keys: list[str]
    """The tokens that it could look at."""
    weights: np.ndarray
    """How much it looked at each."""
    stages: list[Stage]
    difference: float
    """The most by which the last numbers of the stages differ from what the model itself computed in their place."""


def written(value: float) -> str:
    """A number as it stands in a formula, where it need not be exact."""
    return f"{float(value):.4g}"


def product_sum(left: Sequence[float], right: Sequence[float], total: float, more: str = "") -> str:
    """`0.31 × -0.2 + 0.12 × 0.5 + … = 1.74`: the first terms of a sum of products, and what all of them come to."""
    terms = [f"{written(a)} × {written(b)}" for a, b in zip(left[:TERMS], right[:TERMS])]
    if len(left) > TERMS:
        terms.append(f"… ({len(left)} terms)")
    if more:
        terms.append(more)
    return f"{' + '.join(terms)} = {written(total)}"
