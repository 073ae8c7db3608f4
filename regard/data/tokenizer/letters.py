"""Letters of a fixed alphabet, one token each: DNA, proteins, anything written without words.

Loses white space and case. Letters outside the alphabet are refused as mistakes in the data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.ragged import Sentences
from regard.data.tokenizer._base import SPECIALS, Tokenizer
from regard.errors import UserError
from regard.special_tokens import END

__all__ = ["Letters"]

_FILE = "tokenizer.json"
_MOST = 1000


class Letters(Tokenizer):
    """The four specials, then the letters of the alphabet in its order."""

    kind: ClassVar[str] = "letters"
    between: ClassVar[str] = ""

    def __init__(self, alphabet: str) -> None:
        self._alphabet = alphabet
        self._letters = [*SPECIALS, *alphabet]
        self._ids = {letter: i + len(SPECIALS) for i, letter in enumerate(alphabet)}

    @classmethod
    def train(cls, lines: Iterable[str], *, seed: int, alphabet: str = "") -> Letters:
        """Uses `alphabet`, or every letter of the lines in alphabetical order; `seed` has no effect."""
        seen = dict.fromkeys(map(_capital, alphabet))
        if not alphabet:
            for line in lines:
                seen |= dict.fromkeys(map(_capital, line))
        letters = seen if alphabet else sorted(seen)
        found = "".join(letter for letter in letters if not letter.isspace())
        if not found:
            raise UserError("tokenizer: no text to learn letters from; the corpus is empty")
        if len(found) > _MOST:
            raise UserError(
                f"tokenizer: {len(found):,} different letters, {_MOST:,} are the most; use kind = character"
            )
        return cls(found)

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], **options: Any) -> Letters:
        return cls(str(json.loads(files[_FILE])["alphabet"]))

    def files(self) -> dict[str, bytes]:
        return {_FILE: json.dumps({"kind": self.kind, "alphabet": self._alphabet}, ensure_ascii=False).encode()}

    def __len__(self) -> int:
        return len(self._letters)

    def encode(self, text: str) -> list[int]:
        ids = self._ids
        try:
            return [ids[_capital(letter)] for letter in text if not letter.isspace()]
        except KeyError:
            place, letter = next(
                (i, c) for i, c in enumerate(text, 1) if not c.isspace() and _capital(c) not in self._ids
            )
            raise UserError(
                f"letter '{letter}' at place {place} is not in the alphabet; allowed are {', '.join(self._alphabet)}"
            ) from None

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def resample(self, sentences: Sentences, seeds: np.ndarray, alpha: float) -> Sentences:
        return sentences

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.surfaces(ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._letters[i] for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        return [self._letters[i] if i > END else "" for i in ids]


def _capital(letter: str) -> str:
    capital = letter.upper()
    return capital if len(capital) == 1 else letter
