"""Attention without parameters: softmax(x m^T) m, the first step of the road to the Transformer."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from regard.layers.attend import mix
from regard.layers.attention._base import Attention, Context, Kept, Mask, Places, Query

__all__ = ["Dot"]


class Dot(Attention):
    """Every query compares itself with every remembered vector; `scaled` divides by sqrt(width) first."""

    def __init__(self, width: int, scaled: bool = False):
        super().__init__()
        self.context = width
        self.scale = width**-0.5 if scaled else 1.0

    def remember(self, memory: Float[Tensor, "B S D"]) -> Kept:
        return {"value": memory}

    def recall(self, query: Query, kept: Kept, mask: Mask = None, places: Places = None) -> Context:
        return mix(query @ kept["value"].mT * self.scale, kept["value"], mask, self.watcher)
