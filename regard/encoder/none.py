"""No encoder: the decoder attends to the stem's vectors. For stems that are networks of their own, such as a CNN."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from regard.encoder._base import Encoder
from regard.types import Memory

__all__ = ["NoEncoder"]


class NoEncoder(Encoder):
    """The vectors, unchanged."""

    def __init__(self, inputs: int):
        super().__init__()
        self.width = inputs

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Memory:
        return Memory(x, mask)
