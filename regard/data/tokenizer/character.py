"""Characters, with bytes for those outside the vocabulary, so that any text decodes exactly."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.normalise import as_written, normalise
from regard.data.ragged import Sentences
from regard.data.tokenizer._base import SPACE, SPECIALS, Tokenizer, byte_piece, spell
from regard.errors import UserError

__all__ = ["Character"]

_FILE = "tokenizer.json"
_SHOWN = {" ": SPACE, "\n": "\u21b5", "\t": "\u21e5"}


class Character(Tokenizer):
    """One token per character: the four specials, the 256 bytes, then characters by frequency."""

    kind: ClassVar[str] = "character"
    drops_first_space = False

    def __init__(self, characters: Sequence[str], exact: bool = False) -> None:
        self.characters, self.exact = list(characters), exact
        self._parts: list[str | int] = [*("" for _ in SPECIALS), *range(256), *characters]
        self._encoded = [part.encode() if isinstance(part, str) else bytes([part]) for part in self._parts]
        self._first_byte = len(SPECIALS)
        self._ids = {character: i + self._first_byte + 256 for i, character in enumerate(characters)}

    @classmethod
    def train(
        cls, lines: Iterable[str], *, seed: int, size: int = 4000, min_count: int = 1, exact: bool = False
    ) -> Character:
        """The most frequent characters, at most `size` ids with specials and bytes; `seed` has no effect.

        With `exact`, line ends, tabs and every space are kept: for verse, dialogue, code.
        """
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(as_written(line) if exact else normalise(line))
        if not counts:
            raise UserError("tokenizer: no text to learn characters from; the corpus is empty")
        room = size - len(SPECIALS) - 256
        if room < 1:
            raise UserError(f"tokenizer.size={size} leaves no room for characters; 261 is the least")
        frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:room]
        return cls([character for character, count in frequent if count >= min_count], exact)

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], **options: Any) -> Character:
        saved = json.loads(files[_FILE])
        return cls(saved["characters"], bool(saved.get("exact", False)))

    def files(self) -> dict[str, bytes]:
        saved = {"kind": self.kind, "exact": self.exact, "characters": self.characters}
        return {_FILE: json.dumps(saved, ensure_ascii=False, indent=0).encode()}

    def __len__(self) -> int:
        return len(self._parts)

    def encode(self, text: str) -> list[int]:
        text = as_written(text) if self.exact else normalise(text)
        spelled = {character: self._spelled(character) for character in set(text)}
        return [i for character in text for i in spelled[character]]

    def _spelled(self, character: str) -> list[int]:
        if character in self._ids:
            return [self._ids[character]]
        return [self._first_byte + byte for byte in character.encode()]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def resample(self, sentences: Sentences, seeds: np.ndarray, alpha: float) -> Sentences:
        return sentences

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join([self._encoded[i] for i in ids]).decode("utf-8", "replace")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [SPECIALS[i] if i < len(SPECIALS) else _shown(self._parts[i]) for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        return spell(self._parts[i] for i in ids)


def _shown(part: str | int) -> str:
    if isinstance(part, int):
        return byte_piece(part)
    return _SHOWN.get(part, part)
