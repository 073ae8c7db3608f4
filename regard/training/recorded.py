"""Forward and backward of a batch as a CUDA graph: recorded once for a shape, replayed for every batch that fits in it.

Python takes longer to ask for the thousand small parts of a step than a GPU to compute them; a graph is asked for as a
whole. It reads and writes the very tensors it was recorded with, so batches are copied into them, and gradients are
added to those of the parameters, which therefore stay where they are. All graphs use the same memory, one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.types import END, PAD, Batch

ROOM = 1.15
"""A batch goes into a recording that is at most so many times as large."""
MOST = 400
"""Shapes that are recorded; batches of others are computed as ever."""

Shape = tuple[int, int, int]
"""Rows, source tokens, target tokens."""


class _Recording(NamedTuple):
    batch: Batch
    """What the graph reads."""
    graph: torch.cuda.CUDAGraph
    total: Tensor
    """Where it leaves the loss."""


class Recorder:
    """Adds a batch's gradients to the parameters, as `compute` does, and gives its loss."""

    def __init__(self, compute: Callable[[Batch], Tensor], note: Callable[[str], None]) -> None:
        self._compute, self._note = compute, note
        self._recordings: dict[Shape, _Recording] = {}
        self._met: Counter[Shape] = Counter()
        self._pool: Any = None
        self._stream: torch.cuda.Stream | None = None
        self._stopped = False

    def __call__(self, batch: Batch) -> Tensor:
        if self._stopped:
            return self._compute(batch)
        shape = len(batch), batch.source.shape[1], batch.target.shape[1]
        fitting = self._fitting(shape)
        if fitting is None:
            self._met[shape] += 1
            if self._met[shape] < 2 or len(self._recordings) >= MOST or not self._record(shape, batch):
                return self._compute(batch)
            fitting = shape
        recording = self._recordings[fitting]
        for kept, new in zip(_tensors(recording.batch), _tensors(filled_up(batch, fitting)), strict=True):
            kept.copy_(new)
        recording.graph.replay()
        return recording.total

    def stop(self) -> bool:
        """Forgets all recordings and records no more: memory ran out. False when there were none."""
        held, self._stopped = bool(self._recordings), True
        self._recordings.clear()
        return held

    def _fitting(self, shape: Shape) -> Shape | None:
        """The smallest recording that a batch of that shape fits in."""
        rows, source, target = shape
        fitting = [s for s in self._recordings if s[0] >= rows and s[1] >= source and s[2] >= target]
        smallest = min(fitting, key=_size, default=None)
        return smallest if smallest and _size(smallest) <= ROOM * _size(shape) else None

    def _record(self, shape: Shape, batch: Batch) -> bool:
        """What computing a batch of that shape asks of the GPU, without doing it. It was done once before."""
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        stream = self._stream = self._stream or torch.cuda.Stream()
        graph = torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    total = self._compute(batch)
                finally:
                    graph.capture_end()
        except RuntimeError as error:
            self.stop()
            self._note(f"steps are not recorded: {str(error).splitlines()[0]}")
            return False
        torch.cuda.current_stream().wait_stream(stream)
        self._recordings[shape] = _Recording(batch, graph, total)
        return True


def filled_up(batch: Batch, shape: Shape) -> Batch:
    """The same in a larger shape. Rows that fill it up read one END and write nothing, so no loss is theirs."""
    more = [large - small for large, small in zip(shape, (len(batch), batch.source.shape[1], batch.target.shape[1]))]
    if not any(more):
        return batch
    rows, sources, targets = more
    source = F.pad(batch.source, (0, sources, 0, rows), value=PAD)
    source_mask = F.pad(batch.source_mask, (0, sources, 0, rows))
    if rows:
        source[len(batch) :, 0], source_mask[len(batch) :, 0] = END, True
    target = F.pad(batch.target, (0, targets, 0, rows), value=PAD)
    return Batch(source, source_mask, target, F.pad(batch.target_mask, (0, targets, 0, rows)), batch.units)


def _size(shape: Shape) -> int:
    return shape[0] * (shape[1] + shape[2])


def _tensors(batch: Batch) -> tuple[Tensor, ...]:
    return batch.source, batch.source_mask, batch.target, batch.target_mask
