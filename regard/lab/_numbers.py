"""Rounds and formats the numbers of experiments."""

from __future__ import annotations

import math
from collections.abc import Sequence


def rounded(value: float) -> float | None:
    """Four significant digits, more than seeds agree on; JSON has no infinity."""
    return float(f"{value:.4g}") if math.isfinite(value) else None


def number(value: float | None) -> float:
    """A number as JSON returned it."""
    return math.nan if value is None else value


def median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def shown(value: float) -> str:
    if not math.isfinite(value):
        return "not finite"
    plain = value == 0 or 0.01 <= abs(value) < 100
    return f"{value:.2f}" if plain else f"{value:.1e}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


def ranged(values: Sequence[float]) -> str:
    """The range of some numbers, or the number if all are equal."""
    low, high = shown(min(values)), shown(max(values))
    return low if low == high else f"{low} to {high}"
