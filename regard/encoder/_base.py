"""The interface of every encoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.types import Memory


class Encoder(nn.Module, ABC):
    """Vectors and their mask in, a Memory out."""

    width: int
    """The width of the states it returns."""
    adds_own_positions: ClassVar[bool] = False
    """True if it needs no position encoding from the stem: it reads in order or adds positions itself."""
    cuda_graphable: ClassVar[bool] = False
    """True if a forward pass does the same work for every batch of one shape and never waits for the GPU."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "B S I"], mask: Bool[Tensor, "B S"]) -> Memory: ...
