"""The interface of every attention: `project_memory` once per memory, then `attend` to it with each query.

A new attention defines `project_memory` and `scores`, or `attend` as a whole. What a Transformer needs besides,
self-attention and a KV cache, follows from these; an attention that has a faster way overrides it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard import registry
from regard.layers.attend import Mask, Rotation, as_boolean, weighted_sum
from regard.layers.kv_cache import CachePositions, KVCache
from regard.layers.observable import Observable
from regard.layers.precision import computed_in

Query = Float[Tensor, "B T D"]
Context = Float[Tensor, "B T C"]
ProjectedMemory = dict[str, Tensor]
"""Whatever can be computed from the memory alone, such as keys and values, each (B, S, ...)."""
Positions = Int[Tensor, "T"] | None
"""The queries' positions in the target, for attentions that depend on them; None: 0, 1, 2, ..."""


class Attention(Observable, ABC):
    """Reports "weights", (B, heads, T, S), to its observer.

    `project_memory` treats each position by itself: what it gives can be cached position by position.
    """

    context: int
    """The width of the output."""
    heads: int = 1
    cuda_graphable: ClassVar[bool] = False
    """True if a forward pass never waits for the GPU and draws no numbers on the host."""
    takes_relative_position: ClassVar[bool] = False
    """True if a mask may be a bias of any numbers, for each head (B H T S), and `self_attend` takes a rotation: see
    layers/relative_position. It then has a `head_width`."""

    @abstractmethod
    def project_memory(self, memory: Float[Tensor, "B S M"]) -> ProjectedMemory: ...

    def scores(
        self, query: Query, projected: ProjectedMemory, mask: Mask = None, positions: Positions = None
    ) -> Float[Tensor, "B T S"]:
        """How well each query matches each position, before the mask and the softmax."""
        raise NotImplementedError(f"{type(self).__name__} defines neither scores nor attend")

    def attend(
        self, query: Query, projected: ProjectedMemory, mask: Mask = None, positions: Positions = None
    ) -> Context:
        """The sum of `projected["value"]`, weighted by the softmax of the scores."""
        scores = self.scores(query, projected, mask, positions)
        return weighted_sum(scores, projected["value"], mask, self.observer)

    def forward(self, query: Query, memory: Float[Tensor, "B S M"], mask: Mask = None) -> Context:
        return self.attend(query, self.project_memory(memory), mask)

    def self_attend(self, x: Float[Tensor, "B T D"], mask: Mask = None, causal: bool = False) -> Context:
        """Self-attention; with `causal`, no position attends to later ones."""
        if causal:
            past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
            mask = past if mask is None else as_boolean(mask) & past
        return self.attend(x, self.project_memory(x), mask)

    def cached_self_attend(self, x: Float[Tensor, "R T D"], cache: KVCache, at: CachePositions) -> Context:
        """Causal self-attention of new tokens to themselves and to those in the cache."""
        at.write(cache, self.project_memory(x))
        return self.attend(x, at.own_past(cache), at.past, at.positions)

    def allocate_cache(self, like: Float[Tensor, "*N D"], sentences: int, capacity: int, beams: int) -> KVCache:
        """An empty KV cache for inputs of the type and width of `like`."""
        entry = self.project_memory(torch.zeros(1, 1, like.shape[-1], dtype=computed_in(like), device=like.device))
        return {name: value.new_zeros(sentences, capacity, beams, *value.shape[2:]) for name, value in entry.items()}


def rotated(rotation: Rotation | None) -> dict[str, Any]:
    """The keyword of `self_attend` for a rotation; an attention without relative positions has none."""
    return {} if rotation is None else {"rotation": rotation}


def build_attention(
    spec: str | dict[str, Any],
    where: str,
    width: int,
    memory_width: int,
    heads: int = 0,
    head_width: int = 0,
    bias: bool = True,
) -> Attention:
    """The attention that a recipe names; its table has precedence. `heads` of 0: the attention's own default."""
    more = {"head_width": head_width, "bias": bias} | ({"heads": heads} if heads else {})
    offered = {name: value for name, value in more.items() if isinstance(spec, str) or name not in spec}
    made: Attention = registry.build("layers/attention", spec, where, width=width, memory_width=memory_width, **offered)
    return made
