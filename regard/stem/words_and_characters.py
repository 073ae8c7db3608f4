"""Words as their embedding and their spelling: a convolution over characters, and a casing feature."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.embedding import TokenEmbedding
from regard.spelling import CASINGS, CHARACTERS
from regard.stem._base import Stem
from regard.types import UNKNOWN

__all__ = ["WordsAndCharacters"]


class WordsAndCharacters(Stem):
    """embedding(word) + W [max over characters of a convolution; casing] (Ma and Hovy 2016; Chiu and Nichols 2016).

    The papers concatenate instead. A sum keeps the width of the word embedding, and what comes first in every encoder
    is a linear layer anyway. `word_dropout` hides words but not their spelling, which is all that is known of new ones.
    """

    reads: ClassVar[str] = "text"
    spells: ClassVar[bool] = True

    def __init__(
        self,
        vocabulary: int,
        width: int = 100,
        filters: int = 30,
        character_width: int = 30,
        position: str | dict[str, object] = "none",
        dropout: float = 0.1,
        word_dropout: float = 0.0,
    ):
        super().__init__()
        self.width, self.word_dropout = width, word_dropout
        self.embedding = TokenEmbedding(vocabulary, width, position, dropout, scale=True)
        self.characters = nn.Embedding(CHARACTERS, character_width)
        self.casing = nn.Embedding(len(CASINGS), 8)
        self.convolution = nn.Conv1d(character_width, filters, 3, padding=1)
        self.project = nn.Linear(filters + 8, width)
        self.dropout = nn.Dropout(dropout)

    @property
    def token_embedding(self) -> TokenEmbedding:
        return self.embedding

    def forward(
        self, source: Int[Tensor, "B S *columns"], mask: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B S"]]:
        if source.ndim != 3:
            raise UserError("model.stem: words_and_characters is for tag and classify; use tokens")
        source = source.masked_fill(~mask[..., None], 0)
        ids, casing, characters = source[..., 0], source[..., 1], source[..., 2:]
        if self.training and self.word_dropout:
            ids = ids.masked_fill(torch.rand(ids.shape, device=ids.device) < self.word_dropout, UNKNOWN)
        spelling = torch.cat([self.read(characters), self.casing(casing)], -1)
        return self.embedding(ids) + self.dropout(self.project(spelling)), mask

    def read(self, characters: Int[Tensor, "B S C"]) -> Float[Tensor, "B S F"]:
        """The largest value of every filter over a word; there is one empty character at least, and its vector is 0."""
        flat = characters.flatten(0, 1)
        vectors = self.characters(flat) * (flat != 0)[..., None]
        return self.convolution(vectors.transpose(1, 2)).max(-1).values.unflatten(0, characters.shape[:2])
