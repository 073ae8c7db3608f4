"""The interface of every position encoding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor, nn


class Position(nn.Module, ABC):
    """Position numbers in, a vector for each out."""

    limit: int | None = None
    """The number of positions it has vectors for; None: no limit."""
    cuda_graphable: ClassVar[bool] = False
    """True if a forward pass never waits for the GPU and draws no numbers on the host."""

    @abstractmethod
    def forward(self, positions: Int[Tensor, "T"]) -> Float[Tensor, "T D"]: ...
