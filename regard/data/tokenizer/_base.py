"""The interface of tokenizers. They never add BEGIN or END themselves."""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from regard.data.ragged import Sentences

if TYPE_CHECKING:
    import numpy as np

SPECIALS = ["<pad>", "<unk>", "<s>", "</s>"]
"""How ids 0 to 3 (PAD, UNKNOWN, BEGIN, END) are displayed."""
SPACE = "\u2581"
"""How a space at the start of a piece is displayed; `normalise` keeps it out of texts."""


class Tokenizer(ABC):
    """Text to ids and back: `decode(encode(text)) == normalise(text)` unless a kind states what it loses."""

    kind: ClassVar[str]
    between: ClassVar[str] = " "
    """Separator between words; empty where every letter is a word."""
    drops_first_space: bool = True
    """Whether a space at the start of a text belongs to its first token alone, and not to the text."""

    @classmethod
    @abstractmethod
    def train(cls, lines: Iterable[str], *, seed: int) -> Tokenizer:
        """Learns a vocabulary in one pass over the lines. Each kind adds its own keywords."""

    @classmethod
    @abstractmethod
    def from_files(cls, files: Mapping[str, bytes], **options: Any) -> Tokenizer:
        """The tokenizer that `files()` saved."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """What is saved in a model folder, by file name."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of the target language; the same one, unless the languages have vocabularies or files of their
        own."""
        return self

    def sizes(self) -> dict[str, int]:
        """Sizes that the parts of a model need. `source_vocabulary` is there if the stem's is another."""
        return {"vocabulary": len(self)}

    @abstractmethod
    def encode(self, text: str) -> list[int]: ...

    @abstractmethod
    def encode_many(self, texts: Sequence[str]) -> list[list[int]]: ...

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """The ids of each word of a text. In this default no word knows of the others."""
        return [self.encode(word) for word in words]

    @abstractmethod
    def resample(self, sentences: Sentences, seeds: np.ndarray, alpha: float) -> Sentences:
        """Subword sampling: random segmentations of the same texts, with one 64-bit seed per sentence."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text; ids 0 to 3 add nothing."""

    @abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """How each token is displayed."""

    def names(self, ids: Sequence[int]) -> list[str]:
        """How other programs call each token, where that is not how it is displayed."""
        return self.pieces(ids)

    @abstractmethod
    def surfaces(self, ids: Sequence[int]) -> list[str]:
        """The text that each token adds, spaces included; joined they are `decode(ids)` except for a leading space."""

    def id_of(self, piece: str) -> int | None:
        """The token that is displayed as `piece`, or has this name. This default searches; a kind may know."""
        pieces = self.pieces(range(len(self)))
        return pieces.index(piece) if piece in pieces else None

    def sample(self, text: str, random: np.random.Generator, alpha: float) -> list[int]:
        """`resample` for one text: a random segmentation."""
        import numpy as np  # here, not above: it takes 0.1 s, and translating needs none

        ids = self.encode(text)
        seed = random.integers(0, 2**63, size=1, dtype=np.uint64)
        return self.resample(Sentences(np.array(ids, dtype=np.int64), np.array([0, len(ids)])), seed, alpha)[0]

    def word_index(self, ids: Sequence[int]) -> list[int]:
        """Each token's word, as an index into `decode(ids).split()`; one without visible text belongs to the next."""
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


def spell(parts: Iterable[str | int | bytes]) -> list[str]:
    """The text that each part adds. Bytes, or an int for one, are UTF-8; a character appears with its last byte."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(decoder.decode(b"", True) + part)
        else:
            texts.append(decoder.decode(part if isinstance(part, bytes) else bytes([part])))
    cut = decoder.decode(b"", True)
    if cut:
        texts[-1] += cut
    return texts


_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def is_byte(piece: str) -> bool:
    """Whether a piece has the form of `byte_piece`."""
    return _BYTE.fullmatch(piece) is not None


def byte_piece(byte: int) -> str:
    return f"<0x{byte:02X}>"


def displayed(octets: bytes) -> str:
    """A token of bytes as a piece of text: a space as SPACE, and in hex what is no whole character or not visible."""
    shown = []
    for character in octets.decode("utf-8", "surrogateescape"):
        if character == " ":
            shown.append(SPACE)
        elif character.isprintable() and character != SPACE:
            shown.append(character)
        else:
            shown += map(byte_piece, character.encode("utf-8", "surrogateescape"))
    return "".join(shown)
