"""The Transformer encoder (Vaswani et al. 2017, 3.1): a stack of layers in which every position attends to all."""

from __future__ import annotations

from typing import Any, ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.encoder._base import Encoder
from regard.layers.attend import Mask, attention_bias
from regard.layers.attention._base import Attention, build_attention
from regard.layers.compiling import Repeated
from regard.layers.feed_forward import FeedForward
from regard.layers.precision import computed_in
from regard.layers.residual import Residual, last_norm
from regard.types import Memory

__all__ = ["TransformerEncoder"]


class EncoderLayer(Repeated):
    """Self-attention, then feed-forward, each inside a residual connection."""

    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward: int,
        dropout: float,
        norm: str,
        activation: str,
        attention: str | dict[str, Any] = "multi_head",
    ):
        super().__init__()
        self.attention: Attention = build_attention(attention, "model.encoder.attention", width, width, heads)
        self.feed_forward = FeedForward(width, feed_forward, activation)
        self.around_attention = Residual(width, dropout, norm)
        self.around_feed_forward = Residual(width, dropout, norm)

    def forward(self, x: Float[Tensor, "B S D"], mask: Mask) -> Float[Tensor, "B S D"]:
        x = self.around_attention(x, lambda x: self.attention.self_attend(x, mask))
        return self.around_feed_forward(x, self.feed_forward)


class TransformerEncoder(Encoder):
    """A stack of encoder layers."""

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
    ):
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList(
            EncoderLayer(width, heads, feed_forward, dropout, norm, activation, attention) for _ in range(layers)
        )
        self.norm = last_norm(width, norm)

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Memory:
        x = x.to(computed_in(x))
        bias = attention_bias(mask[:, None, :], x.dtype)
        for layer in self.layers:
            x = layer(x, bias)
        return Memory(self.norm(x), mask)
