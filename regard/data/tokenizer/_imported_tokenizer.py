"""What the tokenizers of imported models share: a numbering of their own; and none of them is trained here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from regard.data.ragged import Sentences
from regard.data.tokenizer._base import Tokenizer
from regard.data.tokenizer._imported_vocabulary import ImportedVocabulary
from regard.errors import UserError

if TYPE_CHECKING:
    import numpy as np


class ImportedTokenizer(Tokenizer):
    """A subclass encodes."""

    _vocabulary: ImportedVocabulary

    @classmethod
    def train(cls, lines: Iterable[str], *, seed: int) -> Tokenizer:
        """Refused: its files come with an imported model."""
        raise UserError(
            f"tokenizer.kind={cls.kind}: such a tokenizer comes with an imported model; train one of kind subword, "
            "or give tokenizer.path"
        )

    def __len__(self) -> int:
        return len(self._vocabulary)

    def resample(self, sentences: Sentences, seeds: np.ndarray, alpha: float) -> Sentences:
        """The same sentences: an imported model is trained on the best segmentation."""
        return sentences

    def decode(self, ids: Sequence[int]) -> str:
        text = "".join(self.surfaces(ids))
        return text.removeprefix(" ") if self.drops_first_space else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._vocabulary.pieces[i] for i in ids]

    def names(self, ids: Sequence[int]) -> list[str]:
        return [self._vocabulary.names[i] for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        return self._vocabulary.surfaces(ids)

    def id_of(self, piece: str) -> int | None:
        found = self._vocabulary.ids.get(piece)
        return found if found in self._vocabulary.reserved else self._displayed.get(piece, found)

    @cached_property
    def _displayed(self) -> dict[str, int]:
        return {piece: i for i, piece in reversed([*enumerate(self._vocabulary.pieces)])}
