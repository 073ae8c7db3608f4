"""Music as data/music.py writes it: a token for the bar, then one for each of a piano's 88 keys from low to high.

The ids are fixed, so that a decoder may know which token is which key (decoder/independent_keys.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.music import BAR, tidy
from regard.data.ragged import Sentences
from regard.data.tokenizer._base import SPACE, SPECIALS, Tokenizer
from regard.errors import UserError
from regard.special_tokens import END

__all__ = ["Pitches"]

LOWEST, HIGHEST = 21, 108
"""The MIDI numbers of a piano's first and last key."""
_FILE = "tokenizer.json"
_WORDS = [BAR, *map(str, range(LOWEST, HIGHEST + 1))]


class Pitches(Tokenizer):
    """The four specials, the bar, and 88 pitches. Text that is no music, or lies outside the keys, is refused."""

    kind: ClassVar[str] = "pitches"

    def __init__(self) -> None:
        self._words = [*SPECIALS, *(SPACE + word for word in _WORDS)]
        self._ids = {word: i + len(SPECIALS) for i, word in enumerate(_WORDS)}

    @classmethod
    def train(cls, lines: Iterable[str], *, seed: int) -> Pitches:
        """Nothing is learnt; an empty corpus is refused as by every kind."""
        if not any(line.strip() for line in lines):
            raise UserError("tokenizer: no music to read; the corpus is empty")
        return cls()

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], **options: Any) -> Pitches:
        return cls()

    def files(self) -> dict[str, bytes]:
        return {_FILE: json.dumps({"kind": self.kind}).encode()}

    def __len__(self) -> int:
        return len(self._words)

    def encode(self, text: str) -> list[int]:
        try:
            return [self._ids[word] for word in tidy(text).split()]
        except KeyError as error:
            raise UserError(f"pitch {error.args[0]} is not on the keyboard, {LOWEST} to {HIGHEST}") from None

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def resample(self, sentences: Sentences, seeds: np.ndarray, alpha: float) -> Sentences:
        return sentences

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.surfaces(ids)).removeprefix(" ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._words[i] for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        return [self._words[i].replace(SPACE, " ") if i > END else "" for i in ids]
