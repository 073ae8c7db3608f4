"""Text: token ids to vectors."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.layers.embedding import TokenEmbedding
from regard.stem._base import Stem
from regard.types import UNKNOWN

__all__ = ["Tokens"]


class Tokens(Stem):
    """Token embedding plus position.

    `word_dropout` replaces that share of tokens by <unk> in training, so that the model learns to use context.
    """

    reads: ClassVar[str] = "text"
    cuda_graphable: ClassVar[bool] = True

    def __init__(
        self,
        vocabulary: int,
        width: int = 512,
        position: str | dict[str, object] = "sinusoidal",
        dropout: float = 0.1,
        scale: bool = True,
        embedding_norm: bool = False,
        word_dropout: float = 0.0,
        norm_epsilon: float = 1e-5,
    ):
        super().__init__()
        self.width, self.word_dropout = width, word_dropout
        self.embedding = TokenEmbedding(vocabulary, width, position, dropout, scale, embedding_norm, norm_epsilon)

    @property
    def token_embedding(self) -> TokenEmbedding:
        return self.embedding

    def forward(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B S"]]:
        if self.training and self.word_dropout:
            dropped = torch.rand(source.shape, device=source.device) < self.word_dropout
            source = source.masked_fill(dropped, UNKNOWN)
        return self.embedding(source), mask
