"""What every attention is: `remember` once what depends on the memory alone, then `recall` it for each query."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.layers.watch import Watched

Kept = dict[str, Tensor]
"""What is computed once a memory, each (B, S, ...)."""


class Attention(Watched, ABC):
    """query (B, T, D), memory (B, S, M), mask broadcastable to (B, T, S) with True where a query may look.

    Tells its watcher the "weights", (B, heads, T, S). What it gives is `context` wide.
    """

    context: int

    @abstractmethod
    def remember(self, memory: Float[Tensor, "B S M"]) -> Kept: ...

    @abstractmethod
    def recall(
        self,
        query: Float[Tensor, "B T D"],
        kept: Kept,
        mask: Bool[Tensor, "*N"] | None = None,
        places: Int[Tensor, "T"] | None = None,
    ) -> Float[Tensor, "B T C"]:
        """`places` are the queries' positions in the text being written, for those attentions that care."""

    def forward(
        self, query: Float[Tensor, "B T D"], memory: Float[Tensor, "B S M"], mask: Bool[Tensor, "*N"] | None = None
    ) -> Float[Tensor, "B T C"]:
        return self.recall(query, self.remember(memory), mask)
