"""Multi-head attention: several small attentions side by side, then one projection (Vaswani et al. 2017, 3.2.2)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.attend import attend, attend_by_kernel
from regard.layers.attention._base import Attention, Context, Kept, Mask, Places, Query
from regard.layers.linear import Linear

__all__ = ["MultiHead"]

Heads = Float[Tensor, "B T H K"]


class MultiHead(Attention):
    """Concat(head_1 .. head_h) W_O, where head_i attends with its own projections of query, key and value."""

    def __init__(self, width: int, heads: int = 8, dropout: float = 0.0):
        super().__init__()
        if width % heads:
            raise UserError(f"model: width {width} cannot be divided among {heads} heads; choose heads that divide it")
        self.width = self.context = width
        self.heads, self.dropout = heads, dropout
        self.inward = Linear(width, 3 * width)  # W_Q, W_K, W_V on top of each other: one product makes all three
        self.outward = nn.Linear(width, width)
        for matrix in (*self.inward.weight.chunk(3), self.outward.weight):
            nn.init.xavier_uniform_(matrix)
        nn.init.zeros_(self.inward.bias)
        nn.init.zeros_(self.outward.bias)

    def to_itself(self, x: Float[Tensor, "B T D"], mask: Mask = None, causal: bool = False) -> Float[Tensor, "B T D"]:
        """Self-attention: the vectors look at each other, with `causal` only at those before them."""
        all_three = self.inward(x).unflatten(-1, (3, self.heads, self.width // self.heads))
        mixed = attend_by_kernel([all_three], mask, causal, self._dropped(), self.watcher)
        if mixed is not None:
            return self.outward(mixed.flatten(2))
        query, key, value = all_three.unbind(2)
        return self.look(query, key, value, mask, causal)

    def project(self, x: Float[Tensor, "B T D"]) -> tuple[Heads, Float[Tensor, "B T 2 H K"]]:
        """Queries, and keys and values together, of the same vectors."""
        query, both = self.inward(x).split((self.width, 2 * self.width), dim=-1)
        return self._split(query), both.unflatten(-1, (2, self.heads, self.width // self.heads))

    def remember(self, memory: Float[Tensor, "B S D"]) -> Kept:
        """Keys and values."""
        both = self.inward.part(memory, self.width, 3 * self.width)
        key, value = both.chunk(2, dim=-1)
        return {"key": self._split(key), "value": self._split(value)}

    def recall(self, query: Query, kept: Kept, mask: Mask = None, places: Places = None) -> Context:
        projected = self.inward.part(query, 0, self.width)
        return self.look(self._split(projected), kept["key"], kept["value"], mask)

    def look(
        self,
        query: Float[Tensor, "B T H K"],
        key: Float[Tensor, "B S H K"],
        value: Float[Tensor, "B S H K"],
        mask: Mask = None,
        causal: bool = False,
    ) -> Float[Tensor, "B T D"]:
        mixed = attend_by_kernel([query, key, value], mask, causal, self._dropped(), self.watcher)
        if mixed is not None:
            return self.outward(mixed.flatten(2))
        mixed = attend(
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            mask if mask is None or mask.ndim < 3 else mask[:, None],  # the same for every head
            causal,
            self._dropped(),
            self.watcher,
        )
        return self.outward(mixed.transpose(1, 2).flatten(2))

    def _dropped(self) -> float:
        return self.dropout if self.training else 0.0

    def _split(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T H K"]:
        return x.unflatten(-1, (self.heads, self.width // self.heads))
