"""A Transformer decoder with a recurrence in place of self-attention (SSRU; Kim et al. 2019, "From Research to
Production and Back: Ludicrously Fast Neural Machine Translation").

A step costs the same at every position, and a beam carries one vector per layer instead of a KV cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.decoder._base import Decoder
from regard.decoder.transformer import check_memory_width, start_state
from regard.layers.attention._base import Attention, Mask, ProjectedMemory, build_attention
from regard.layers.compiling import Repeated
from regard.layers.embedding import TokenEmbedding
from regard.layers.feed_forward import FeedForward
from regard.layers.precision import computed_in
from regard.layers.residual import Residual, last_norm
from regard.layers.ssru import SSRU
from regard.types import Memory, State

__all__ = ["SSRUDecoder"]


class SSRULayer(Repeated):
    """SSRU, cross-attention to the memory, feed-forward, each inside a residual connection."""

    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward: int,
        dropout: float,
        norm: str,
        activation: str,
        cross_attends: bool,
        attention: str | dict[str, Any],
    ):
        """A language model's layer has no memory: `cross_attends` is False."""
        super().__init__()
        self.cross_attends = cross_attends
        self.recurrence = SSRU(width)
        self.around_recurrence = Residual(width, dropout, norm)
        if cross_attends:
            self.cross_attention: Attention = build_attention(attention, "model.decoder.attention", width, width, heads)
            self.around_cross_attention = Residual(width, dropout, norm)
        self.feed_forward = FeedForward(width, feed_forward, activation)
        self.around_feed_forward = Residual(width, dropout, norm)

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        carried: Float[Tensor, "R D"],
        memory: ProjectedMemory,
        memory_mask: Mask,
        positions: Int[Tensor, "Q"],
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R D"]]:
        """`carried` is the state before x, and the second result the state after it; `positions` are those of all
        queries to one memory."""

        def recur(x: Tensor) -> Tensor:
            nonlocal carried
            x, carried = self.recurrence(x, carried)
            return x

        def cross_attend(x: Tensor) -> Tensor:
            # All beams of a sentence are queries to its one memory, which therefore is never copied.
            queries = x.reshape(len(next(iter(memory.values()))), -1, x.shape[-1])
            return self.cross_attention.attend(queries, memory, memory_mask, positions).reshape(x.shape)

        x = self.around_recurrence(x, recur)
        if self.cross_attends:
            x = self.around_cross_attention(x, cross_attend)
        return self.around_feed_forward(x, self.feed_forward), carried


class SSRUDecoder(Decoder):
    """A stack of SSRU layers between an embedding and a projection to the vocabulary."""

    cuda_graphable: ClassVar[bool] = True

    def __init__(
        self,
        vocabulary: int,
        width: int = 512,
        layers: int = 2,
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
    ):
        """`memory_width`: None without a memory (a language model); 0 means `width`."""
        check_memory_width(memory_width, width)
        super().__init__(TokenEmbedding(vocabulary, width, position, dropout, scale), width, tie)
        cross_attends = memory_width is not None
        self.width = width
        self.layers: Iterable[Any] = nn.ModuleList(
            SSRULayer(width, heads, feed_forward, dropout, norm, activation, cross_attends, attention)
            for _ in range(layers)
        )
        self.norm = last_norm(width, norm)

    def start(self, memory: Memory, beams: int, capacity: int) -> State:
        """Projects the memory once per layer; the recurrences start from zero. There is no KV cache to allocate."""
        state = start_state(self.embedding.table.weight, self.layers, memory, beams, capacity=0)
        shape, device = (len(memory) * beams, self.width), memory.states.device
        return replace(state, carry=[torch.zeros(shape, device=device) for _ in self.layers])

    def advance(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T D"], State]:
        x = self.embedding(ids, state.position)
        x = x.to(computed_in(x))
        positions = (state.position + torch.arange(ids.shape[1], device=ids.device)).repeat(state.beams)
        carry = []
        for layer, carried, memory in zip(self.layers, state.carry, state.memory["layers"], strict=True):
            x, carried = layer(x, carried, memory, state.memory["bias"], positions)
            carry.append(carried)
        return self.norm(x), replace(state, carry=carry, position=state.position + ids.shape[1])
