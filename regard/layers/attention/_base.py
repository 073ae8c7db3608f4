"""What every attention is: `remember` once what depends on the memory alone, then `recall` it for each query."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.layers.watch import Watched

Query = Float[Tensor, "B T D"]
Context = Float[Tensor, "B T C"]
Kept = dict[str, Tensor]
"""What is computed once a memory, each (B, S, ...)."""
Mask = Bool[Tensor, "..."] | Float[Tensor, "..."] | None
"""Broadcastable to (B, T, S), True where a query may look; multi-head attention also takes it as a cost (attend.py)."""
Places = Int[Tensor, "T"] | None
"""The queries' positions in the text being written, for those attentions that care."""


class Attention(Watched, ABC):
    """Tells its watcher the "weights", (B, heads, T, S)."""

    context: int
    """How wide what it gives is."""

    @abstractmethod
    def remember(self, memory: Float[Tensor, "B S M"]) -> Kept: ...

    @abstractmethod
    def recall(self, query: Query, kept: Kept, mask: Mask = None, places: Places = None) -> Context: ...

    def forward(self, query: Query, memory: Float[Tensor, "B S M"], mask: Mask = None) -> Context:
        return self.recall(query, self.remember(memory), mask)
