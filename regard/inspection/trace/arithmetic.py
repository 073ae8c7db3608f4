"""The arithmetic of one attention head for one query, step by step as plain data: formulas and all intermediate values.

record/arithmetic computes it, draw/arithmetic.py draws it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

MASKED = "masked"
"""The note of a score that the mask excludes."""
TERMS = 3
"""Terms of a long sum that are written out."""


@dataclass
class Row:
    """A vector, or a single number of one token."""

    label: str
    values: np.ndarray
    symbol: str = ""
    """The name of its numbers: `q` has q[0], q[1], ...; without it they are named after the label."""
    note: str = ""
    how: list[str] = field(default_factory=list)
    """How each value was computed, with the numbers filled in; empty where this is not recorded."""
    key: int | None = None
    """The index of the key that it belongs to."""

    def name_of(self, index: int) -> str:
        """The name of one of its numbers: `q[3]`."""
        number = f"[{index}]" if len(self.values) > 1 else ""
        of = f" of {self.label}" if self.symbol and self.symbol != self.label else ""
        return f"{self.symbol or self.label}{number}{of}"


@dataclass
class Stage:
    """One step of the calculation."""

    name: str
    formula: str
    sentence: str
    rows: list[Row]
    note: str = ""
    """A remark about all rows: their sum, how many of them are masked."""


@dataclass
class Calculation:
    """How one head attended for one query, from the input of the attention to its output."""

    path: str
    """The module, by its name in the model."""
    kind: str
    """CROSS, SOURCE or TARGET (trace/base.py)."""
    layer: int
    head: int
    heads: int
    position: int
    query: str
    """The query's token."""
    keys: list[str]
    """The tokens that it can attend to."""
    weights: np.ndarray
    """The attention weight of each key."""
    stages: list[Stage]
    difference: float
    """The largest absolute difference between the last stage and what the model itself computed."""


def short_number(value: float) -> str:
    """A number in a formula, rounded to four digits."""
    return f"{float(value):.4g}"


def product_sum(left: Sequence[float], right: Sequence[float], total: float, more: str = "") -> str:
    """`0.31 × -0.2 + 0.12 × 0.5 + … = 1.74`: the first terms of a sum of products, and the total of all terms."""
    terms = [f"{short_number(a)} × {short_number(b)}" for a, b in zip(left[:TERMS], right[:TERMS])]
    if len(left) > TERMS:
        terms.append(f"… ({len(left)} terms)")
    if more:
        terms.append(more)
    return f"{' + '.join(terms)} = {short_number(total)}"
