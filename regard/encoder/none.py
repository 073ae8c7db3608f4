"""No encoder: what the stem made is what the decoder looks at. For stems that are networks of their own."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.types import Memory

__all__ = ["NoEncoder"]


class NoEncoder(nn.Module):
    """The vectors as they are."""

    def __init__(self, inputs: int):
        super().__init__()
        self.width = inputs

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Memory:
        return Memory(x, mask)
