"""Attention without parameters: softmax(x m^T) m, the first step of the road to the Transformer."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from regard.layers.attend import attention_weights
from regard.layers.watch import Watched

__all__ = ["Dot"]


class Dot(Watched):
    """Every query compares itself with every remembered vector; `scaled` divides by sqrt(width) first."""

    def __init__(self, width: int, scaled: bool = False):
        super().__init__()
        self.scale = width**-0.5 if scaled else 1.0

    def forward(
        self, query: Float[Tensor, "B T D"], memory: Float[Tensor, "B S D"], mask: Bool[Tensor, "*M"] | None = None
    ) -> Float[Tensor, "B T D"]:
        weights = attention_weights(query, memory, mask, scale=self.scale)
        if self.watcher:
            self.watcher("weights", weights[:, None])
        return weights @ memory
