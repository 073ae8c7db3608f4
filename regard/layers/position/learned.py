"""A learned vector for each position (Gehring et al. 2017); the number of positions is fixed when the model is made."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

__all__ = ["Learned"]


class Learned(nn.Module):
    """One row of a table for each of `length` positions."""

    def __init__(self, width: int, length: int = 512):
        super().__init__()
        self.limit: int | None = length
        self.table = nn.Embedding(length, width)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, positions: Int[Tensor, "T"]) -> Float[Tensor, "T D"]:
        return self.table(positions)
