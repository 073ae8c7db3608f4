"""The interface of every model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from regard.types import Batch, LossSum


class Model(nn.Module, ABC):
    """Parts assembled into something that is trained by `loss`."""

    @property
    def cuda_graphable(self) -> bool:
        """Whether a training step can be a CUDA graph: it does the same work for every batch of one shape, examples of
        only padding add nothing to it, and the host draws no numbers."""
        return False

    @staticmethod
    def part_sizes(settings: dict[str, Any]) -> dict[str, int]:
        """Data sizes that its parts see instead of the codec's own, from the model's resolved settings."""
        return {}

    @abstractmethod
    def loss(self, batch: Batch) -> LossSum: ...

    def with_ponder_cost(self, total: Tensor, *costs: Tensor | None) -> Tensor:
        """The loss plus the ponder cost of parts with adaptive halting: in training only, not in validation."""
        return sum((cost.sum() for cost in costs if cost is not None), total) if self.training else total
