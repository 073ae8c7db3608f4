"""Forward and backward of a batch as a CUDA graph: captured once per shape, replayed for every batch that fits in it.

Launching the thousand small kernels of a step takes Python longer than the GPU needs to run them; a graph is launched
as a whole. It reads and writes the very tensors it was captured with, so batches are copied into those, and gradients
accumulate in tensors that stay where they are. All graphs share one memory pool, which one graph uses at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.training.placement import WholeModel
from regard.training.single_process import OneRank
from regard.training.strategy import Note, Part, Strategy
from regard.types import END, PAD, Batch, LossSum

MAX_PADDING = 1.15
"""A batch is padded into a graph of at most this many times its size."""
MAX_GRAPHS = 400
"""Shapes that are captured; batches of further shapes run without a graph."""

Shape = tuple[int, int, int]
"""Rows, source tokens, target tokens."""


class GraphReplay(OneRank):
    """One process that replays CUDA graphs."""

    reads_late = True

    def __init__(self, placement: WholeModel, precision: torch.dtype | None, note: Note) -> None:
        self.placement, self.precision = placement, precision
        self._note = note
        self._graphs = CudaGraphs(self._compute, note)

    def with_cuda_graphs(self, note: Note) -> Strategy:
        return self

    def begin(self, parts: list[Part]) -> None:
        """Zeroes gradients in place: graphs write to the tensors they were captured with."""
        if gradients := self.gradients():
            torch._foreach_zero_(gradients)

    def backward(self, part: Part, last: bool) -> LossSum:
        return LossSum(self._graphs(part.batch), part.batch.units)

    def release(self) -> None:
        """Gradients stay where they are."""

    def out_of_memory(self, rows: int, where: str) -> bool:
        """Graphs hold as much memory again as a step takes; without them the batch may fit."""
        if not self._graphs.stop():
            return False
        torch.cuda.empty_cache()
        self._note("memory is short: steps no longer use CUDA graphs")
        return True

    def _compute(self, batch: Batch) -> Tensor:
        with torch.autocast("cuda", self.precision, enabled=self.precision is not None):
            total: Tensor = self.placement.model.loss(batch).total  # type: ignore[operator]
        total.backward()
        return total.detach()


class _Graph(NamedTuple):
    batch: Batch
    """Its input."""
    graph: torch.cuda.CUDAGraph
    total: Tensor
    """Its output: the loss."""


class CudaGraphs:
    """Adds a batch's gradients to the parameters and returns its loss, as `compute` does."""

    def __init__(self, compute: Callable[[Batch], Tensor], note: Note) -> None:
        self._compute, self._note = compute, note
        self._graphs: dict[Shape, _Graph] = {}
        self._seen: Counter[Shape] = Counter()
        self._pool: Any = None
        self._stream: torch.cuda.Stream | None = None
        self._stopped = False

    def __call__(self, batch: Batch) -> Tensor:
        if self._stopped:
            return self._compute(batch)
        shape = len(batch), batch.source.shape[1], batch.target.shape[1]
        fitting = self._fitting(shape)
        if fitting is None:
            self._seen[shape] += 1
            if self._seen[shape] < 2 or len(self._graphs) >= MAX_GRAPHS or not self._capture(shape, batch):
                return self._compute(batch)
            fitting = shape
        graph = self._graphs[fitting]
        for input_, new in zip(_tensors(graph.batch), _tensors(pad_to(batch, fitting)), strict=True):
            input_.copy_(new)
        graph.graph.replay()
        return graph.total

    def stop(self) -> bool:
        """Discards all graphs and captures no more. False if there were none."""
        had_any, self._stopped = bool(self._graphs), True
        self._graphs.clear()
        return had_any

    def _fitting(self, shape: Shape) -> Shape | None:
        """The smallest graph that a batch of that shape fits in."""
        rows, source, target = shape
        fitting = [s for s in self._graphs if s[0] >= rows and s[1] >= source and s[2] >= target]
        smallest = min(fitting, key=_size, default=None)
        return smallest if smallest and _size(smallest) <= MAX_PADDING * _size(shape) else None

    def _capture(self, shape: Shape, batch: Batch) -> bool:
        """Captures the kernels for a batch of that shape without running them. The shape has run once before."""
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
            self._note(f"steps do not use CUDA graphs: {str(error).splitlines()[0]}")
            return False
        torch.cuda.current_stream().wait_stream(stream)
        self._graphs[shape] = _Graph(batch, graph, total)
        return True


def pad_to(batch: Batch, shape: Shape) -> Batch:
    """The batch padded to a larger shape. Added rows read one END and have no target, so they add no loss."""
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
