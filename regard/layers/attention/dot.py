"""Dot-product attention without parameters: softmax(x m^T) m, the simplest form on the way to the Transformer."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from regard.layers.attention._base import Attention, Mask, Positions, ProjectedMemory, Query

__all__ = ["Dot"]


class Dot(Attention):
    """The score is the dot product of query and memory vector; `scaled` divides it by sqrt(width)."""

    def __init__(self, width: int, scaled: bool = False):
        super().__init__()
        self.context = width
        self.scale = width**-0.5 if scaled else 1.0

    def project_memory(self, memory: Float[Tensor, "B S D"]) -> ProjectedMemory:
        return {"value": memory}

    def scores(
        self, query: Query, projected: ProjectedMemory, mask: Mask = None, positions: Positions = None
    ) -> Float[Tensor, "B T S"]:
        return query @ projected["value"].mT * self.scale
