"""Gradients summed over the ranks while the last backward pass of a step still runs.

As in DistributedDataParallel, gradients lie in a few large buckets, and a bucket is all-reduced as soon as its last
gradient is there. Unlike there, every rank starts the same all-reduces in the same order whatever happens to it (no
batch, weights without a gradient, out of memory), so no rank waits for one that another never starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.training.gradient_norms import gradient_norms
from regard.training.placement import WholeModel
from regard.training.rank_sums import SeveralRanks
from regard.training.ranks import Ranks
from regard.training.strategy import Part, StepSums
from regard.types import Batch, LossSum

BUCKET_BYTES = 25 * 2**20  # large enough to be sent at full speed, small enough to be sent early


class DataParallel(SeveralRanks):
    """Every rank has the whole model and computes some of a step's batches."""

    def __init__(
        self, model: nn.Module, ranks: Ranks, device: torch.device, precision: torch.dtype | None, accumulate: int
    ) -> None:
        super().__init__(ranks, device, accumulate)
        self.precision = precision
        self.placement = WholeModel(model, device, ranks.is_first)
        ranks.broadcast(self.placement.own.values(), device)
        self._buckets = GradientBuckets(list(self.placement.trained.values()))

    def parts(self, batches: list[Batch]) -> list[Part]:
        return self.numbered(batches)

    def begin(self, parts: list[Part]) -> None:
        self._buckets.begin()
        if not parts:
            self._buckets.last()

    def backward(self, part: Part, last: bool) -> LossSum:
        if last:
            self._buckets.last()
        with torch.autocast(self.device.type, self.precision, enabled=self.precision is not None):
            loss: LossSum = self.placement.model.loss(part.batch)  # type: ignore[operator]
        loss.total.backward()
        return loss

    def end(self) -> bool:
        return self._buckets.end()

    def release(self) -> None:
        for parameter in self.placement.trained.values():
            parameter.grad = None

    def out_of_memory(self, rows: int, where: str) -> bool:
        return False

    def gradients(self, sums: StepSums | None = None) -> list[Tensor]:
        """A gradient that no rank used is zero only because every bucket is summed: it must not count as one."""
        parameters = list(self.placement.trained.values())
        if sums and sums.used:
            for parameter, used in zip(parameters, sums.used, strict=True):
                if not used:
                    parameter.grad = None
        return [p.grad for p in parameters if p.grad is not None]

    def norms(self) -> Tensor | None:
        return gradient_norms(self.placement.trained.values()) if self.ranks.is_first else None

    def combine(self, loss: Tensor, norm: Tensor, units: int, fits: bool, stop: bool, seconds: float) -> Tensor:
        """All ranks have the same norm; only rank 0's is counted, so ranks cannot differ even in the last bit."""
        counted = norm if self.ranks.is_first else None
        return self.sum_numbers(loss, counted, units, fits, stop, seconds, self._buckets.used)


class GradientBuckets:
    """Gradients as views of buckets. Call `begin` at the start of a step, `last` before its last pass, then `end`."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.used = [False] * len(self.parameters)
        """Which parameters had a gradient on this rank in this step."""
        self._groups = list(_grouped(self.parameters))
        self._buckets: list[Tensor] = []
        self._views: list[Tensor] = [torch.empty(0)] * len(self.parameters)
        self._bucket_of = [0] * len(self.parameters)
        for number, group in enumerate(self._groups):
            like = self.parameters[group[0]]
            bucket = torch.zeros(sum(self.parameters[i].numel() for i in group), dtype=like.dtype, device=like.device)
            pieces = bucket.split([self.parameters[i].numel() for i in group])
            for index, piece in zip(group, pieces, strict=True):
                self._views[index] = piece.view_as(self.parameters[index])
                self._bucket_of[index] = number
            self._buckets.append(bucket)
        self._missing: list[set[int]] = []
        self._sent: list[dist.Work] = []
        self._is_last = False
        for index, parameter in enumerate(self.parameters):
            parameter.register_post_accumulate_grad_hook(lambda _, index=index: self._arrived(index))  # type: ignore[misc]

    def begin(self) -> None:
        """Zeroes all gradients."""
        torch._foreach_zero_(self._buckets)
        for parameter, part in zip(self.parameters, self._views, strict=True):
            parameter.grad = part
        self.used = [False] * len(self.parameters)
        self._is_last = False

    def last(self) -> None:
        """The backward pass that comes next is the last one of the step."""
        self._missing = [set(group) for group in self._groups]
        self._sent = []
        self._is_last = True

    def end(self) -> bool:
        """Waits for all all-reduces; False if `last` was not called, so that none was started."""
        if not self._is_last:
            return False
        self._is_last = False
        self._send(len(self._buckets))
        for work in self._sent:
            work.wait()
        return True

    def _arrived(self, index: int) -> None:
        self.used[index] = True
        if self._is_last:
            self._missing[self._bucket_of[index]].discard(index)
            ready = len(self._sent)
            while ready < len(self._buckets) and not self._missing[ready]:
                ready += 1
            self._send(ready)

    def _send(self, until: int) -> None:
        for bucket in self._buckets[len(self._sent) : until]:
            work = dist.all_reduce(bucket, async_op=True)
            assert work is not None
            self._sent.append(work)


def _grouped(parameters: Sequence[nn.Parameter]) -> Iterator[list[int]]:
    """Indexes of parameters that share a bucket, from last to first, the order of a backward pass."""
    group: list[int] = []
    size = 0
    for index in reversed(range(len(parameters))):
        parameter = parameters[index]
        bytes_ = parameter.numel() * parameter.element_size()
        if group and (size + bytes_ > BUCKET_BYTES or parameter.dtype != parameters[group[0]].dtype):
            yield group
            group, size = [], 0
        group.append(index)
        size += bytes_
    if group:
        yield group
