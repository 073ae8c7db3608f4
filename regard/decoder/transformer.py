"""The Transformer decoder (Vaswani et al. 2017, 3.1): causal self-attention, then cross-attention to the source."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.decoder._base import Decoder
from regard.errors import UserError
from regard.layers.attend import Rotation, attention_bias
from regard.layers.attention._base import Attention, Mask, Positions, ProjectedMemory, build_attention, rotated
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
        attention: Attention,
        cross_attention: Attention | None,
        feed_forward: FeedForward,
        residual: Callable[[], Residual],
    ):
        """A language model's layer has no memory and no cross-attention."""
        super().__init__()
        self.attention, self.cross_attends = attention, cross_attention is not None
        if cross_attention is not None:
            self.cross_attention, self.around_cross_attention = cross_attention, residual()
        self.feed_forward = feed_forward
        self.around_attention, self.around_feed_forward = residual(), residual()

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        memory: ProjectedMemory,
        memory_mask: Mask,
        positions: Int[Tensor, "Q"],
        cache: KVCache = None,
        at: CachePositions | None = None,
        past: Mask = None,
        rotation: Rotation | None = None,
    ) -> Float[Tensor, "R T D"]:
        """`positions` are those of all queries to one memory. Without a `cache` x holds all positions, and `past` is a
        bias or `rotation` is given if there are relative positions."""
        x = self.around_attention(x, lambda x: self._self_attention(x, cache, at, past, rotation))
        if self.cross_attends:
            x = self.around_cross_attention(x, lambda x: self._cross_attention(x, memory, memory_mask, positions))
        return self.around_feed_forward(x, self.feed_forward)

    def _self_attention(
        self, x: Tensor, cache: KVCache, at: CachePositions | None, past: Mask, rotation: Rotation | None
    ) -> Tensor:
        if at is None:
            return self.attention.self_attend(x, past, causal=past is None, **rotated(rotation))
        return self.attention.cached_self_attend(x, cache, at)

    def _cross_attention(self, x: Tensor, memory: ProjectedMemory, mask: Mask, positions: Positions) -> Tensor:
        # All beams of a sentence are queries to its one memory, which therefore is never copied.
        queries = x.reshape(len(next(iter(memory.values()))), -1, x.shape[-1])
        return self.cross_attention.attend(queries, memory, mask, positions).reshape(x.shape)


class TransformerDecoder(Decoder):
    """A stack of decoder layers between an embedding and a projection to the vocabulary.

    Pre-norm, with learned positions, gelu and no scale it is GPT-2 (Radford et al. 2019); pre-norm, with rms norms, no
    biases, no scale and relative positions in buckets T5's (Raffel et al. 2020), or with rotary positions and a gated
    silu Llama (Touvron et al. 2023).
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
        """`memory_width`: None without a memory (a language model); 0: `width`. `head_width`: 0: width / heads."""
        check_memory_width(memory_width, width)
        embedding = TokenEmbedding(vocabulary, width, position, dropout, scale, embedding_norm)
        super().__init__(embedding, width, tie, output_bias)
        where = "model.decoder"
        attends = partial(build_attention, attention, f"{where}.attention", width, width, heads, head_width, bias)
        self.layers: Iterable[DecoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            DecoderLayer(
                attends(),
                None if memory_width is None else attends(),
                FeedForward(width, feed_forward, activation, gated=gated, bias=bias),
                lambda: Residual(width, dropout, norm, norm_kind, norm_epsilon),
            )
            for _ in range(layers)
        )
        self.norm = last_norm(width, norm, norm_kind, norm_epsilon)
        self.relative_position = build_relative_position(relative_position, where, self.layers, causal=True)

    def start(self, memory: Memory, beams: int, capacity: int) -> State:
        """Projects the memory once per layer and allocates a KV cache of `capacity` positions per beam."""
        return start_state(self.embedding.table.weight, self.layers, memory, beams, capacity)

    def advance(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T D"], State]:
        x = self.embedding(ids, state.position)
        x = x.to(computed_in(x))
        at = cache_positions(ids, state, x.dtype, self.relative_position)
        for index, layer in enumerate(self.layers):
            past = (state.cache[index], at) if state.cache else (None, None, at.bias, at.rotation)
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
