"""The Transformer's encoder (Vaswani et al. 2017, 3.1): every position looks at every other, layer upon layer."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.layers.attend import as_cost
from regard.layers.attention._base import Mask
from regard.layers.attention.multi_head import MultiHead
from regard.layers.compiling import Repeated
from regard.layers.feed_forward import FeedForward
from regard.layers.precision import computed_in
from regard.layers.residual import Residual, last_norm
from regard.types import Memory

__all__ = ["TransformerEncoder"]


class EncoderLayer(Repeated):
    """Self-attention, then feed-forward, each inside a residual connection."""

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float, norm: str, activation: str):
        super().__init__()
        self.attention = MultiHead(width, heads)
        self.feed_forward = FeedForward(width, feed_forward, activation)
        self.around_attention = Residual(width, dropout, norm)
        self.around_feed_forward = Residual(width, dropout, norm)

    def forward(self, x: Float[Tensor, "B S D"], mask: Mask) -> Float[Tensor, "B S D"]:
        x = self.around_attention(x, lambda x: self.attention.to_itself(x, mask))
        return self.around_feed_forward(x, self.feed_forward)


class TransformerEncoder(nn.Module):
    """A stack of encoder layers."""

    recordable: ClassVar[bool] = True

    def __init__(
        self,
        width: int = 512,
        layers: int = 6,
        heads: int = 8,
        feed_forward: int = 2048,
        dropout: float = 0.1,
        norm: str = "post",
        activation: str = "relu",
    ):
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList(
            EncoderLayer(width, heads, feed_forward, dropout, norm, activation) for _ in range(layers)
        )
        self.norm = last_norm(width, norm)

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Memory:
        x = x.to(computed_in(x))
        cost = as_cost(mask[:, None, :], x.dtype)
        for layer in self.layers:
            x = layer(x, cost)
        return Memory(self.norm(x), mask)
