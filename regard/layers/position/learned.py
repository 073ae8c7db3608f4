"""A learned vector for each position (Gehring et al. 2017); the model fixes the number of positions."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layers.position._base import Position

__all__ = ["Learned"]


class Learned(Position):
    """A table with one row for each of `length` positions."""

    cuda_graphable: ClassVar[bool] = True

    def __init__(self, width: int, length: int = 512):
        super().__init__()
        self.limit = length
        self.table = nn.Embedding(length, width)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, positions: Int[Tensor, "T"]) -> Float[Tensor, "T D"]:
        return self.table(positions)
