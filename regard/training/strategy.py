"""How a step's gradients are computed and combined: the interface that loop and step hold, and the choice of one.

    single_process.py  one process with the whole model
    cuda_graph.py      the same, replaying forward and backward as CUDA graphs
    data_parallel.py   every rank has the whole model; gradients are summed over the ranks
    sharded.py         every rank has a shard of weights, gradients and optimizer state (FSDP2)

Where the weights live (whole or in shards) is a strategy's `placement`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from regard.training.placement import Placement
from regard.types import Batch, BatchStream, LossSum

if TYPE_CHECKING:
    from regard.config import Training
    from regard.training.ranks import Ranks

Note = Callable[[str], None]


class Part(NamedTuple):
    """A batch of a step, or a piece of one that did not fit in memory."""

    batch: Batch
    number: int | None = None
    """Index of the batch in the step, over all ranks, if random numbers are seeded anew for it."""
    counts: bool = True
    """False for a part that is computed only because all ranks must run equally many passes."""


class StepSums(NamedTuple):
    """The numbers of a step, over all ranks."""

    loss: float
    norm: float
    """Of the gradient of the summed loss."""
    units: int
    again: bool = False
    """A batch did not fit in some rank's memory: all ranks repeat the step."""
    seconds: float | None = None
    """Training time on rank 0, if ranks had to agree on it."""
    used: list[bool] | None = None
    """Which parameters had a gradient on any rank; None if the gradients themselves show it."""


class Strategy(ABC):
    """Computes and combines the gradients of a step."""

    placement: Placement
    reads_late: bool
    """Whether the update can be queued on the device before the step's numbers reach the host."""
    signal_echo: float
    """Seconds within which a launcher may repeat a signal that this process already got."""

    @abstractmethod
    def with_cuda_graphs(self, note: Note) -> Strategy:
        """The strategy that also replays CUDA graphs, where that is possible; else this one."""

    @abstractmethod
    def parts(self, batches: list[Batch]) -> list[Part]:
        """What this rank computes of a step, given its batches."""

    @abstractmethod
    def begin(self, parts: list[Part]) -> None:
        """Clears the gradients before the first pass of a step, and before each attempt to repeat it."""

    @abstractmethod
    def backward(self, part: Part, last: bool) -> LossSum:
        """Forward and backward: adds the gradient of the part's summed loss. `last`: no pass of this step follows."""

    @abstractmethod
    def end(self) -> bool:
        """Completes the gradients. True if they were combined with other ranks, who must then repeat a failed step."""

    @abstractmethod
    def release(self) -> None:
        """Frees the gradients after the update, where that is possible."""

    @abstractmethod
    def out_of_memory(self, rows: int, where: str) -> bool:
        """True if memory was freed, so the same part can be tried again; False if it must be split."""

    @abstractmethod
    def gradients(self, sums: StepSums | None = None) -> list[Tensor]:
        """This rank's gradients; with the step's `sums`, only those of parameters that were used anywhere."""

    @abstractmethod
    def norms(self) -> Tensor | None:
        """The gradient norm of each parameter; None on ranks that do not log."""

    @abstractmethod
    def combine(self, loss: Tensor, norm: Tensor, units: int, fits: bool, stop: bool, seconds: float) -> Tensor:
        """The numbers of a step over all ranks, still on the device. `fits`: no part ran out of memory."""

    @abstractmethod
    def read(self, numbers: Tensor, units: int) -> StepSums:
        """Waits for the numbers that `combine` gave."""

    @abstractmethod
    def should_stop(self, requested: bool) -> bool:
        """Whether to stop, given that this process was asked to: several ranks stop at the same step."""

    @abstractmethod
    def time_spent(self, here: float, agreed: float) -> float:
        """Training time in seconds, measured here or agreed on by the ranks in the last step."""


def choose_strategy(
    model: nn.Module,
    settings: Training,
    ranks: Ranks,
    device: torch.device,
    precision: torch.dtype | None,
    stream: BatchStream,
) -> Strategy:
    """The strategy for this number of processes and `training.shard`. Places the model."""
    if ranks.size == 1:
        from regard.training.single_process import SingleProcess

        return SingleProcess(model, device, precision)
    if settings.shard:
        from regard.training.sharded import Sharded

        return Sharded(model, ranks, device, precision, settings.accumulate, stream)
    from regard.training.data_parallel import DataParallel

    return DataParallel(model, ranks, device, precision, settings.accumulate)
