"""What several ranks agree on in every step: its loss, norm and units, whether to repeat it, stop, and the time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.errors import UserError
from regard.training.ranks import Ranks
from regard.training.strategy import Note, Part, StepSums, Strategy
from regard.types import Batch

ECHO_SECONDS = 5.0


class SeveralRanks(Strategy):
    """What strategies of several processes have in common. All that ranks decide, they decide by sums over all."""

    reads_late = False
    signal_echo = ECHO_SECONDS

    def __init__(self, ranks: Ranks, device: torch.device, accumulate: int) -> None:
        if accumulate < ranks.size:
            raise UserError(f"training.accumulate: {accumulate} batches a step are too few for {ranks.size}")
        self.ranks, self.device, self.accumulate = ranks, device, accumulate
        self._stop = False

    def with_cuda_graphs(self, note: Note) -> Strategy:
        return self

    def numbered(self, batches: list[Batch]) -> list[Part]:
        """Random numbers are seeded anew for each batch of a step, so they do not depend on the number of ranks."""
        numbers = range(self.ranks.rank, self.accumulate, self.ranks.size)
        return [Part(batch, number) for batch, number in zip(batches, numbers, strict=True)]

    def sum_numbers(
        self,
        loss: Tensor,
        norm: Tensor | None,
        units: int,
        fits: bool,
        stop: bool,
        seconds: float,
        used: list[bool] | None = None,
    ) -> Tensor:
        """Adds up the numbers of a step. `norm`: None if this rank's is not to be counted."""
        seconds = seconds if self.ranks.is_first else 0.0
        own = torch.tensor([units, not fits, stop, seconds, *(used or ())], dtype=torch.float64)
        if self.device.type == "cuda":
            own = own.pin_memory().to(self.device, non_blocking=True)
        square = own.new_zeros(()) if norm is None else norm.to(own).square()
        return self.ranks.sum(torch.cat([torch.stack([loss.to(own), square]), own]))

    def read(self, numbers: Tensor, units: int) -> StepSums:
        loss, square, total, again, stop, seconds, *used = numbers.tolist()
        self._stop = stop > 0
        marks = [count > 0 for count in used] or None
        return StepSums(loss, math.sqrt(square), int(total), again > 0, seconds, marks)

    def should_stop(self, requested: bool) -> bool:
        return self._stop

    def time_spent(self, here: float, agreed: float) -> float:
        return agreed
