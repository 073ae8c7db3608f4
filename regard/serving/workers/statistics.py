"""What the pool counts for the metrics: how busy the workers are, how long sentences wait, and how much is computed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

WAIT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 60.0)
"""Upper bounds of the histogram of waiting times (seconds)."""


class PoolStatistics:
    """Totals since the start."""

    def __init__(self) -> None:
        self.batches = self.batched = 0
        """Batches of sentences sent to workers, and the sentences in them."""
        self.busy_seconds = 0.0
        """Time that workers spent on batches that are finished, summed over the workers."""
        self.input_characters = self.output_tokens = 0
        """Characters of translated sentences, and tokens of their translations and of other generated text."""
        self.wait_counts = [0] * (len(WAIT_BUCKETS) + 1)
        """Jobs by the time they waited in the queue; the last count is of those beyond all buckets."""
        self.wait_seconds = 0.0

    def waited(self, seconds: float) -> None:
        self.wait_counts[bisect_left(WAIT_BUCKETS, seconds)] += 1
        self.wait_seconds += seconds

    def batch_sent(self, texts: Sequence[str]) -> None:
        self.batches, self.batched = self.batches + 1, self.batched + len(texts)
        self.input_characters += sum(map(len, texts))

    def answered(self, answer: Any) -> None:
        """Counts the tokens of an answer, if it has any: those of the best hypothesis."""
        if isinstance(answer, dict) and isinstance(tokens := answer.get("tokens"), list):
            self.output_tokens += len(tokens)

    def wait_buckets(self) -> list[tuple[str, float]]:
        """The cumulative histogram, as Prometheus has it."""
        total, found = 0, []
        for bound, count in zip([*map(str, WAIT_BUCKETS), "+Inf"], self.wait_counts, strict=True):
            total += count
            found.append((bound, float(total)))
        return found
