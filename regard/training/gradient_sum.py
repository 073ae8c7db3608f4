"""Adds up the gradients of all ranks while the last backward pass of a step still computes.

As in DistributedDataParallel, gradients lie in a few long buffers, and a buffer is sent as soon as all its gradients
are there. Unlike there, every rank starts the same sums in the same order whatever happens to it on the way (no batch
for it, weights without a gradient, no memory left): so none can wait for a sum that another never begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

BUFFER = 25 * 2**20  # bytes: large enough to be sent at full speed, small enough to be sent early


class GradientSum:
    """The gradients of some parameters, each a part of a buffer. `begin` a step, tell the `last` pass, `end` it."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.used = [False] * len(self.parameters)
        """Which had a gradient on this rank in this step."""
        self._groups = list(_grouped(self.parameters))
        self._buffers: list[Tensor] = []
        self._parts: list[Tensor] = [torch.empty(0)] * len(self.parameters)
        self._buffer_of = [0] * len(self.parameters)
        for number, group in enumerate(self._groups):
            like = self.parameters[group[0]]
            buffer = torch.zeros(sum(self.parameters[i].numel() for i in group), dtype=like.dtype, device=like.device)
            pieces = buffer.split([self.parameters[i].numel() for i in group])
            for index, piece in zip(group, pieces, strict=True):
                self._parts[index] = piece.view_as(self.parameters[index])
                self._buffer_of[index] = number
            self._buffers.append(buffer)
        self._missing: list[set[int]] = []
        self._sent: list[dist.Work] = []
        self._is_last = False
        for index, parameter in enumerate(self.parameters):
            parameter.register_post_accumulate_grad_hook(lambda _, index=index: self._arrived(index))  # type: ignore[misc]

    def begin(self) -> None:
        """All gradients are zero."""
        torch._foreach_zero_(self._buffers)
        for parameter, part in zip(self.parameters, self._parts, strict=True):
            parameter.grad = part
        self.used = [False] * len(self.parameters)
        self._is_last = False

    def last(self) -> None:
        """After the backward pass that comes now no gradient changes any more."""
        self._missing = [set(group) for group in self._groups]
        self._sent = []
        self._is_last = True

    def end(self) -> bool:
        """Waits for all sums; False if there was no last pass, so that there is nothing to wait for."""
        if not self._is_last:
            return False
        self._is_last = False
        self._send(len(self._buffers))
        for work in self._sent:
            work.wait()
        return True

    def _arrived(self, index: int) -> None:
        self.used[index] = True
        if self._is_last:
            self._missing[self._buffer_of[index]].discard(index)
            ready = len(self._sent)
            while ready < len(self._buffers) and not self._missing[ready]:
                ready += 1
            self._send(ready)

    def _send(self, until: int) -> None:
        for buffer in self._buffers[len(self._sent) : until]:
            work = dist.all_reduce(buffer, async_op=True)
            assert work is not None
            self._sent.append(work)


def _grouped(parameters: Sequence[nn.Parameter]) -> Iterator[list[int]]:
    """From the last parameter to the first, as a backward pass meets them: indexes of those that share a buffer."""
    group: list[int] = []
    size = 0
    for index in reversed(range(len(parameters))):
        parameter = parameters[index]
        bytes_ = parameter.numel() * parameter.element_size()
        if group and (size + bytes_ > BUFFER or parameter.dtype != parameters[group[0]].dtype):
            yield group
            group, size = [], 0
        group.append(index)
        size += bytes_
    if group:
        yield group
