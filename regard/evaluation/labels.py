"""Accuracy and F1 of labels, in percent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def accuracy(given: Sequence[str], wanted: Sequence[str]) -> float:
    """How many are right, of a hundred."""
    return 100 * sum(g == w for g, w in zip(given, wanted, strict=True)) / max(1, len(wanted))


def macro_f1(given: Sequence[str], wanted: Sequence[str]) -> float:
    """The mean over the wanted labels of 2 right / (given + wanted): rare labels count as much as frequent ones."""
    right = Counter(g for g, w in zip(given, wanted, strict=True) if g == w)
    times_given, times_wanted = Counter(given), Counter(wanted)
    each = [200 * right[name] / (times_given[name] + times_wanted[name]) for name in times_wanted]
    return sum(each) / max(1, len(each))
