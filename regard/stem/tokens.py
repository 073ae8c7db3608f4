"""Text: token ids to vectors."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.layers.embedding import TokenEmbedding

__all__ = ["Tokens"]


class Tokens(nn.Module):
    """Embedding plus position."""

    reads: ClassVar[str] = "text"

    def __init__(
        self,
        vocabulary: int,
        width: int = 512,
        position: str | dict[str, object] = "sinusoidal",
        dropout: float = 0.1,
        scale: bool = True,
        embedding_norm: bool = False,
    ):
        super().__init__()
        self.width = width
        self.embedding = TokenEmbedding(vocabulary, width, position, dropout, scale, embedding_norm)

    def forward(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B S"]]:
        return self.embedding(source), mask
