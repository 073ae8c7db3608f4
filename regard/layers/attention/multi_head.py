"""Multi-head attention: parallel attentions in subspaces, then an output projection (Vaswani et al. 2017, 3.2.2)."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.attend import attend_by_kernel, dot_product_attention
from regard.layers.attention._base import Attention, Context, Mask, Positions, ProjectedMemory, Query
from regard.layers.kv_cache import CachePositions, KVCache
from regard.layers.linear import Linear
from regard.layers.precision import computed_in

__all__ = ["MultiHead"]


class MultiHead(Attention):
    """Concat(head_1 .. head_h) W_O, where head_i attends with its own projections of query, key and value."""

    cuda_graphable: ClassVar[bool] = True
    takes_relative_position: ClassVar[bool] = True

    def __init__(self, width: int, heads: int = 8, dropout: float = 0.0, head_width: int = 0, bias: bool = True):
        """`head_width`: 0 means width / heads."""
        super().__init__()
        if width % heads and not head_width:
            raise UserError(f"model: width {width} cannot be divided among {heads} heads; choose heads that divide it")
        self.width = self.context = width
        self.heads, self.dropout = heads, dropout
        self.head_width = head_width or width // heads
        self.size = heads * self.head_width
        self.inward = Linear(width, 3 * self.size, bias)  # W_Q, W_K, W_V stacked: one product for all three
        self.outward = nn.Linear(self.size, width, bias)
        for matrix in (*self.inward.weight.chunk(3), self.outward.weight):
            nn.init.xavier_uniform_(matrix)
        for linear in (self.inward, self.outward) if bias else ():
            nn.init.zeros_(linear.bias)

    def self_attend(self, x: Float[Tensor, "B T D"], mask: Mask = None, causal: bool = False) -> Float[Tensor, "B T D"]:
        """Self-attention; with `causal`, no position attends to later ones."""
        all_three = self.inward(x).unflatten(-1, (3, self.heads, self.head_width))
        mixed = attend_by_kernel([all_three], mask, causal, self._dropped(), self.observer)
        if mixed is not None:
            return self.outward(mixed.flatten(2))
        query, key, value = all_three.unbind(2)
        return self.attend_heads(query, key, value, mask, causal)

    def cached_self_attend(self, x: Float[Tensor, "R T D"], cache: KVCache, at: CachePositions) -> Context:
        """All beams of a sentence attend to the entries of all its beams; the bias leaves each its own past."""
        query, key_value = self.inward(x).split((self.size, 2 * self.size), dim=-1)
        at.write(cache, key_value.unflatten(-1, (2, self.heads, self.head_width)))
        queries = self._split(query).unflatten(0, (len(cache), -1)).flatten(1, 2)
        key, value = cache[:, : at.length].flatten(1, 2).unbind(2)
        return self.attend_heads(queries, key, value, at.bias).view(x.shape)

    def allocate_cache(self, like: Float[Tensor, "*N D"], sentences: int, capacity: int, beams: int) -> KVCache:
        shape = sentences, capacity, beams, 2, self.heads, self.head_width
        return torch.zeros(shape, dtype=computed_in(like), device=like.device)

    def project_memory(self, memory: Float[Tensor, "B S D"]) -> ProjectedMemory:
        both = self.inward.part(memory, self.size, 3 * self.size)
        key, value = both.chunk(2, dim=-1)
        return {"key": self._split(key), "value": self._split(value)}

    def attend(
        self, query: Query, projected: ProjectedMemory, mask: Mask = None, positions: Positions = None
    ) -> Context:
        heads = self._split(self.inward.part(query, 0, self.size))
        return self.attend_heads(heads, projected["key"], projected["value"], mask)

    def attend_heads(
        self,
        query: Float[Tensor, "B T H K"],
        key: Float[Tensor, "B S H K"],
        value: Float[Tensor, "B S H K"],
        mask: Mask = None,
        causal: bool = False,
    ) -> Float[Tensor, "B T D"]:
        """Attention in every head, then the output projection."""
        mixed = attend_by_kernel([query, key, value], mask, causal, self._dropped(), self.observer)
        if mixed is not None:
            return self.outward(mixed.flatten(2))
        mixed = dot_product_attention(
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            mask[:, None] if mask is not None and mask.ndim == 3 else mask,  # the same for every head
            causal,
            self._dropped(),
            self.observer,
        )
        return self.outward(mixed.transpose(1, 2).flatten(2))

    def _dropped(self) -> float:
        return self.dropout if self.training else 0.0

    def _split(self, x: Float[Tensor, "B T N"]) -> Float[Tensor, "B T H K"]:
        return x.unflatten(-1, (self.heads, self.head_width))
