"""Accuracy and F1 of labels, in percent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def accuracy(predicted: Sequence[str], truth: Sequence[str]) -> float:
    """The percentage of correct labels."""
    return 100 * sum(p == t for p, t in zip(predicted, truth, strict=True)) / max(1, len(truth))


def macro_f1(predicted: Sequence[str], truth: Sequence[str]) -> float:
    """The mean F1 of the true labels: rare ones count as much as frequent ones."""
    correct = Counter(p for p, t in zip(predicted, truth, strict=True) if p == t)
    times_predicted, times_true = Counter(predicted), Counter(truth)
    each = [200 * correct[name] / (times_predicted[name] + times_true[name]) for name in times_true]
    return sum(each) / max(1, len(each))
