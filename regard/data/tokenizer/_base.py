"""What every tokenizer is. It does not know which side of a pair it reads, and never adds BEGIN or END by itself."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.ragged import Sentences

SPECIALS = ["<pad>", "<unk>", "<s>", "</s>"]
"""How the ids 0 to 3 (PAD, UNKNOWN, BEGIN, END) are shown."""
SPACE = "\u2581"
"""How a space at the start of a piece is shown; `normalise` keeps it out of texts."""


class Tokenizer(ABC):
    """Text to ids and back: `decode(encode(text)) == normalise(text)` unless a kind says what it loses."""

    kind: ClassVar[str]
    between: ClassVar[str] = " "
    """What stands between two words of a text; nothing, where every letter is one."""

    @classmethod
    @abstractmethod
    def train(cls, lines: Iterable[str], *, seed: int) -> Tokenizer:
        """Learns a vocabulary from lines that are read once; each kind adds its own keywords."""

    @classmethod
    @abstractmethod
    def from_files(cls, files: Mapping[str, bytes], **options: Any) -> Tokenizer:
        """The tokenizer that `files()` described."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """What to write into a model folder, by file name."""

    @abstractmethod
    def __len__(self) -> int: ...

    def sizes(self) -> dict[str, int]:
        """What the parts of a model are told."""
        return {"vocabulary": len(self)}

    @abstractmethod
    def encode(self, text: str) -> list[int]: ...

    @abstractmethod
    def encode_many(self, texts: Sequence[str]) -> list[list[int]]: ...

    @abstractmethod
    def resample(self, sentences: Sentences, seeds: np.ndarray, alpha: float) -> Sentences:
        """Other ways to cut the same texts, where the kind knows several; drawn with a 64-bit seed a sentence."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text; ids 0 to 3 add nothing."""

    @abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What a person should see of each token."""

    @abstractmethod
    def surfaces(self, ids: Sequence[int]) -> list[str]:
        """The text each token adds, spaces included; joined they are `decode(ids)` but for a first space."""

    def sample(self, text: str, random: np.random.Generator, alpha: float) -> list[int]:
        """`resample` for one text: a way to cut it into tokens, drawn at random."""
        ids = self.encode(text)
        seed = random.integers(0, 2**63, size=1, dtype=np.uint64)
        return self.resample(Sentences(np.array(ids, dtype=np.int64), np.array([0, len(ids)])), seed, alpha)[0]

    def word_index(self, ids: Sequence[int]) -> list[int]:
        """For each token, which of `decode(ids).split()` it belongs to; one without visible text goes with the next."""
        result: list[int] = []
        word, inside = -1, False
        for surface in self.surfaces(ids):
            first = -1
            for character in surface:
                if character.isspace():
                    inside = False
                    continue
                word += not inside
                inside = True
                first = word if first < 0 else first
            result.append(first)
        following = max(word, 0)
        for at in reversed(range(len(result))):
            result[at] = following = result[at] if result[at] >= 0 else following
        return result


def spell(parts: Iterable[str | int]) -> list[str]:
    """The text each part adds, where an int is a byte of UTF-8: a character appears with the byte that completes it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts = [decoder.decode(bytes([p])) if isinstance(p, int) else decoder.decode(b"", True) + p for p in parts]
    cut = decoder.decode(b"", True)
    if cut:
        texts[-1] += cut
    return texts


def byte_piece(byte: int) -> str:
    return f"<0x{byte:02X}>"
