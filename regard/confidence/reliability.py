"""How well confidences are calibrated: of the words with a confidence of about 0.8, are 80 % right?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

BINS = 10


class Bin(NamedTuple):
    """The examples whose confidence is within one tenth of the range."""

    confidence: float
    """Their mean."""
    right: float
    """The share of them that is right."""
    size: int


@dataclass(frozen=True)
class Reliability:
    """The bins that have examples, in order."""

    bins: tuple[Bin, ...]
    auc: float | None
    """The probability that of a right and a wrong one the right one has the higher confidence (equal: a half); None
    if there are not both."""

    @property
    def count(self) -> int:
        return sum(one.size for one in self.bins)

    @property
    def error(self) -> float:
        """The expected calibration error: the mean distance of confidence and share of right ones."""
        return sum(abs(one.confidence - one.right) * one.size for one in self.bins) / max(1, self.count)

    @property
    def right(self) -> float:
        return sum(one.right * one.size for one in self.bins) / max(1, self.count)


def reliability(confidences: Sequence[float], right: Sequence[bool]) -> Reliability:
    members: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for one, is_right in zip(confidences, right, strict=True):
        members[min(int(one * BINS), BINS - 1)].append((one, is_right))
    bins = [Bin(fmean(c for c, _ in some), fmean(r for _, r in some), len(some)) for some in members if some]
    return Reliability(tuple(bins), _auc(confidences, right))


def _auc(confidences: Sequence[float], right: Sequence[bool]) -> float | None:
    """By ranks (Mann and Whitney); equal confidences share theirs."""
    order = sorted(range(len(right)), key=lambda number: confidences[number])
    rights = sum(map(bool, right))
    if not 0 < rights < len(right):
        return None
    total, start = 0.0, 0
    while start < len(order):
        end = start
        while end < len(order) and confidences[order[end]] == confidences[order[start]]:
            end += 1
        total += (start + end + 1) / 2 * sum(bool(right[number]) for number in order[start:end])
        start = end
    return (total - rights * (rights + 1) / 2) / (rights * (len(right) - rights))
