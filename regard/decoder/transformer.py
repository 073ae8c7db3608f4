"""The Transformer decoder (Vaswani et al. 2017, 3.1): causal self-attention, then cross-attention to the source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.decoder._base import Decoder
from regard.errors import UserError
from regard.layers.attend import attention_bias
from regard.layers.attention._base import Attention, Mask, Positions, ProjectedMemory, build_attention
from regard.layers.compiling import Repeated
from regard.layers.embedding import TokenEmbedding
from regard.layers.feed_forward import FeedForward
from regard.layers.kv_cache import CachePositions, KVCache, cache_positions
from regard.layers.precision import computed_in
from regard.layers.relative_position._base import build_relative_position
from regard.layers.residual import Residual, last_norm
from regard.types import Memory, State

__all__ = ["TransformerDecoder"]


class DecoderLayer(Repeated):
    """Causal self-attention, cross-attention to the memory, feed-forward, each inside a residual connection."""

    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward: int,
        dropout: float,
        norm: str,
        activation: str,
        cross_attends: bool = True,
        attention: str | dict[str, Any] = "multi_head",
        norm_kind: str = "layer",
        norm_epsilon: float = 1e-5,
        gated: bool = False,
        bias: bool = True,
        head_width: int = 0,
    ):
        """A language model's layer has no memory: `cross_attends` is False."""
        super().__init__()
        self.cross_attends = cross_attends

        def attends() -> Attention:
            given = {"head_width": head_width, "bias": bias}
            return build_attention(attention, "model.decoder.attention", width, width, heads, **given)

        self.attention = attends()
        if cross_attends:
            self.cross_attention = attends()
            self.around_cross_attention = Residual(width, dropout, norm, norm_kind, norm_epsilon)
        self.feed_forward = FeedForward(width, feed_forward, activation, gated=gated, bias=bias)
        self.around_attention = Residual(width, dropout, norm, norm_kind, norm_epsilon)
        self.around_feed_forward = Residual(width, dropout, norm, norm_kind, norm_epsilon)

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        memory: ProjectedMemory,
        memory_mask: Mask,
        positions: Int[Tensor, "Q"],
        cache: KVCache = None,
        at: CachePositions | None = None,
        past: Mask = None,
    ) -> Float[Tensor, "R T D"]:
        """`positions` are those of all queries to one memory; without a `cache` x holds all positions at once, and `past`
        is the bias of relative positions."""
        x = self.around_attention(x, lambda x: self._self_attention(x, cache, at, past))
        if self.cross_attends:
            x = self.around_cross_attention(x, lambda x: self._cross_attention(x, memory, memory_mask, positions))
        return self.around_feed_forward(x, self.feed_forward)

    def _self_attention(self, x: Tensor, cache: KVCache, at: CachePositions | None, past: Mask) -> Tensor:
        if at is None:
            return self.attention.self_attend(x, past, causal=past is None)
        return self.attention.cached_self_attend(x, cache, at)

    def _cross_attention(self, x: Tensor, memory: ProjectedMemory, mask: Mask, positions: Positions) -> Tensor:
        # All beams of a sentence are queries to its one memory, which therefore is never copied.
        queries = x.reshape(len(next(iter(memory.values()))), -1, x.shape[-1])
        return self.cross_attention.attend(queries, memory, mask, positions).reshape(x.shape)


class TransformerDecoder(Decoder):
    """A stack of decoder layers between an embedding and a projection to the vocabulary.

    Pre-norm, with learned positions, gelu and no scale it is GPT-2 (Radford et al. 2019); pre-norm, with rms norms, no
    biases, no scale and relative positions in buckets T5's (Raffel et al. 2020).
    """

    cuda_graphable: ClassVar[bool] = True

    def __init__(
        self,
        vocabulary: int,
        width: int = 512,
        layers: int = 6,
        heads: int = 8,
        feed_forward: int = 2048,
        dropout: float = 0.1,
        norm: str = "post",
        activation: str = "relu",
        position: str | dict[str, object] = "sinusoidal",
        tie: bool = True,
        scale: bool = True,
        memory_width: int | None = 0,
        attention: str | dict[str, Any] = "multi_head",
        norm_kind: str = "layer",
        norm_epsilon: float = 1e-5,
        gated: bool = False,
        bias: bool = True,
        head_width: int = 0,
        relative_position: str | dict[str, Any] = "none",
        embedding_norm: bool = False,
        output_bias: bool = False,
    ):
        """`memory_width`: None without a memory (a language model); 0 means `width`, a `head_width` of 0 width / heads."""
        check_memory_width(memory_width, width)
        embedding = TokenEmbedding(vocabulary, width, position, dropout, scale, embedding_norm)
        super().__init__(embedding, width, tie, output_bias)
        sizes = width, heads, feed_forward, dropout, norm, activation, memory_width is not None, attention
        more = norm_kind, norm_epsilon, gated, bias, head_width
        self.layers: Iterable[DecoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            DecoderLayer(*sizes, *more) for _ in range(layers)
        )
        self.norm = last_norm(width, norm, norm_kind, norm_epsilon)
        self.relative_position = build_relative_position(
            relative_position, "model.decoder.relative_position", self.layers, causal=True
        )

    def start(self, memory: Memory, beams: int, capacity: int) -> State:
        """Projects the memory once per layer and allocates a KV cache of `capacity` positions per beam."""
        return start_state(self.embedding.table.weight, self.layers, memory, beams, capacity)

    def advance(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T D"], State]:
        x = self.embedding(ids, state.position)
        x = x.to(computed_in(x))
        at = cache_positions(ids, state, x.dtype, self.relative_position)
        for index, layer in enumerate(self.layers):
            past = (state.cache[index], at) if state.cache else (None, None, at.bias)
            x = layer(x, state.memory["layers"][index], state.memory["bias"], at.of_queries, *past)
        return self.norm(x), replace(state, position=state.position + ids.shape[1])


def start_state(
    weight: Tensor, layers: Iterable[DecoderLayer], memory: Memory, beams: int, capacity: int, uses: int = 1
) -> State:
    """The state before the first token. A layer that is used several times has as many caches, but one memory."""
    layers = list(layers)
    projected = [layer.cross_attention.project_memory(memory.states) if layer.cross_attends else {} for layer in layers]
    device = memory.states.device
    caches, origin = [], None
    if capacity:
        shape = len(memory), capacity, beams
        caches = [layer.attention.allocate_cache(weight, *shape) for layer in layers for _ in range(uses)]
        origin = torch.zeros(len(memory) * beams, capacity, dtype=torch.int16, device=device)
    return State(
        beams=beams,
        position=torch.zeros((), dtype=torch.long, device=device),
        memory={"bias": attention_bias(memory.mask[:, None], computed_in(weight)), "layers": projected},
        cache=caches,
        origin=origin,
    )


def check_memory_width(memory_width: int | None, width: int) -> None:
    if memory_width and memory_width != width:
        raise UserError(f"model.decoder: is {width} wide, but its memory is {memory_width}; make the widths equal")
