"""The Transformer encoder (Vaswani et al. 2017, 3.1): a stack of layers in which every position attends to all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.encoder._base import Encoder
from regard.layers.attend import Mask, Rotation, attention_bias
from regard.layers.attention._base import Attention, build_attention, rotated
from regard.layers.compiling import Repeated
from regard.layers.feed_forward import FeedForward
from regard.layers.precision import computed_in
from regard.layers.relative_position._base import build_relative_position
from regard.layers.residual import Residual, last_norm
from regard.types import Memory

__all__ = ["TransformerEncoder"]


class EncoderLayer(Repeated):
    """Self-attention, then feed-forward, each inside a residual connection."""

    def __init__(self, attention: Attention, feed_forward: FeedForward, residual: Callable[[], Residual]):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.around_attention, self.around_feed_forward = residual(), residual()

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Mask, rotation: Rotation | None = None
    ) -> Float[Tensor, "B S D"]:
        x = self.around_attention(x, lambda x: self.attention.self_attend(x, mask, **rotated(rotation)))
        return self.around_feed_forward(x, self.feed_forward)


class TransformerEncoder(Encoder):
    """A stack of encoder layers.

    Pre-norm, with rms norms, no biases and relative positions in buckets it is T5's (Raffel et al. 2020).
    """

    cuda_graphable: ClassVar[bool] = True

    def __init__(
        self,
        width: int = 512,
        layers: int = 6,
        heads: int = 8,
        feed_forward: int = 2048,
        dropout: float = 0.1,
        norm: str = "post",
        activation: str = "relu",
        attention: str | dict[str, Any] = "multi_head",
        norm_kind: str = "layer",
        norm_epsilon: float = 1e-5,
        gated: bool = False,
        bias: bool = True,
        head_width: int = 0,
        relative_position: str | dict[str, Any] = "none",
    ):
        """`head_width`: 0 means width / heads."""
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList(
            EncoderLayer(
                build_attention(attention, "model.encoder.attention", width, width, heads, head_width, bias),
                FeedForward(width, feed_forward, activation, gated=gated, bias=bias),
                lambda: Residual(width, dropout, norm, norm_kind, norm_epsilon),
            )
            for _ in range(layers)
        )
        self.norm = last_norm(width, norm, norm_kind, norm_epsilon)
        self.relative_position = build_relative_position(relative_position, "model.encoder", self.layers, causal=False)

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Memory:
        x = x.to(computed_in(x))
        positions = torch.arange(x.shape[1], device=x.device)
        bias = attention_bias(mask[:, None, :], x.dtype, self.relative_position(positions, positions))
        rotation = self.relative_position.rotation(positions)
        for layer in self.layers:
            x = layer(x, bias, rotation)
        return Memory(self.norm(x), mask)
