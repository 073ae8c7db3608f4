"""Multi-head attention: parallel attentions in subspaces, then an output projection (Vaswani et al. 2017, 3.2.2)."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.attend import Rotation, attend_by_kernel, dot_product_attention, rotate
from regard.layers.attention._base import Attention, Context, Mask, Positions, ProjectedMemory, Query
from regard.layers.kv_cache import CachePositions, KVCache
from regard.layers.linear import Linear
from regard.layers.precision import computed_in

__all__ = ["MultiHead"]

FEW_QUERIES = 8
"""Up to so many queries, heads that share keys and values attend together; with more, copied keys cost less."""


class MultiHead(Attention):
    """Concat(head_1 .. head_h) W_O, where head_i attends with its own projections of query, key and value.

    With `kv_heads` several heads share keys and values (grouped queries, Ainslie et al. 2023; with one: Shazeer 2019).
    """

    cuda_graphable: ClassVar[bool] = True
    takes_relative_position: ClassVar[bool] = True

    def __init__(
        self,
        width: int,
        heads: int = 8,
        dropout: float = 0.0,
        head_width: int = 0,
        bias: bool = True,
        kv_heads: int = 0,
    ):
        """`head_width`: 0 means width / heads. `kv_heads`: 0 means as many as heads."""
        super().__init__()
        if width % heads and not head_width:
            raise UserError(f"model: width {width} cannot be divided among {heads} heads; choose heads that divide it")
        if kv_heads and heads % kv_heads:
            raise UserError(f"model: {heads} heads cannot share {kv_heads} kv_heads; choose a number that divides them")
        self.width = self.context = width
        self.heads, self.kv_heads, self.dropout = heads, kv_heads or heads, dropout
        self.head_width = head_width or width // heads
        self.size, self.kv_size = heads * self.head_width, self.kv_heads * self.head_width
        self.sizes = (self.size, self.kv_size, self.kv_size)
        self.inward = Linear(width, sum(self.sizes), bias)  # W_Q, W_K, W_V stacked: one product for all three
        self.outward = nn.Linear(self.size, width, bias)
        for matrix in (*self.inward.weight.split(self.sizes), self.outward.weight):
            nn.init.xavier_uniform_(matrix)
        for linear in (self.inward, self.outward) if bias else ():
            nn.init.zeros_(linear.bias)

    def self_attend(
        self,
        x: Float[Tensor, "B T D"],
        mask: Mask = None,
        causal: bool = False,
        rotation: Rotation | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Self-attention; with `causal`, no position attends to later ones."""
        all_three = self.inward(x)
        if rotation is None and self.kv_heads == self.heads:
            all_three = all_three.unflatten(-1, (3, self.heads, self.head_width))
            mixed = attend_by_kernel([all_three], mask, causal, self._dropped(), self.observer)
            if mixed is not None:
                return self.outward(mixed.flatten(2))
            query, key, value = all_three.unbind(2)
        else:
            query, key, value = map(self._split, all_three.split(self.sizes, -1))
            if rotation is not None:
                query, key = rotate(query, rotation), rotate(key, rotation)
        return self.attend_heads(query, key, value, mask, causal)

    def cached_self_attend(self, x: Float[Tensor, "R T D"], cache: KVCache, at: CachePositions) -> Context:
        """All beams of a sentence attend to the entries of all its beams; the bias leaves each its own past."""
        query_key, value = self.inward(x).split((self.size + self.kv_size, self.kv_size), dim=-1)
        heads = self._split(query_key)
        if at.rotation is not None:  # a key keeps its position in the cache, and so its rotation
            heads = rotate(heads, at.rotation)
        queries, new_keys = heads.split((self.heads, self.kv_heads), dim=2)
        at.write(cache, torch.stack([new_keys, self._split(value)], 2))
        queries = queries.unflatten(0, (len(cache), -1)).flatten(1, 2)
        key, value = cache[:, : at.length].flatten(1, 2).unbind(2)
        return self.attend_heads(queries, key, value, at.bias).view(x.shape)

    def allocate_cache(self, like: Float[Tensor, "*N D"], sentences: int, capacity: int, beams: int) -> KVCache:
        shape = sentences, capacity, beams, 2, self.kv_heads, self.head_width
        return torch.zeros(shape, dtype=computed_in(like), device=like.device)

    def project_memory(self, memory: Float[Tensor, "B S D"]) -> ProjectedMemory:
        both = self.inward.part(memory, self.size, sum(self.sizes))
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
        key: Float[Tensor, "B S G K"],
        value: Float[Tensor, "B S G K"],
        mask: Mask = None,
        causal: bool = False,
    ) -> Float[Tensor, "B T D"]:
        """Attention in every head, then the output projection."""
        if self.kv_heads < self.heads:
            few = query.shape[1] <= FEW_QUERIES and not causal and (mask is None or mask.ndim == 3)
            if few and self.observer is None:
                return self._attend_in_groups(query, key, value, mask)
            key, value = self._for_all_heads(key), self._for_all_heads(value)
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

    def _attend_in_groups(
        self,
        query: Float[Tensor, "B T H K"],
        key: Float[Tensor, "B S G K"],
        value: Float[Tensor, "B S G K"],
        mask: Mask,
    ) -> Float[Tensor, "B T D"]:
        """The same: heads that share keys and values become queries of one head, so that the cache is not copied."""
        shared = self.heads // self.kv_heads
        query = query.unflatten(2, (self.kv_heads, shared)).transpose(2, 3).flatten(1, 2)
        if mask is not None and mask.shape[1] > 1:
            mask = mask.repeat_interleave(shared, 1)
        mixed = attend_by_kernel([query, key, value], mask, False, self._dropped(), None)
        if mixed is None:
            mixed = dot_product_attention(
                query.transpose(1, 2),
                key.transpose(1, 2),
                value.transpose(1, 2),
                mask if mask is None else mask[:, None],
                dropout=self._dropped(),
            ).transpose(1, 2)
        return self.outward(mixed.unflatten(1, (-1, shared)).transpose(2, 3).flatten(2))

    def _dropped(self) -> float:
        return self.dropout if self.training else 0.0

    def _for_all_heads(self, shared: Float[Tensor, "B S G K"]) -> Float[Tensor, "B S H K"]:
        """Heads 0 .. n - 1 share the first of them, and so on."""
        return shared[:, :, :, None].expand(-1, -1, -1, self.heads // self.kv_heads, -1).flatten(2, 3)

    def _split(self, x: Float[Tensor, "B T N"]) -> Float[Tensor, "B T H K"]:
        return x.unflatten(-1, (-1, self.head_width))
