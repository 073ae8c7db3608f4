"""Words and punctuation marks, by frequency.

Words outside the vocabulary become UNKNOWN and are lost in decoding, and so is case with `lowercase`. All else decodes
exactly, because each token includes the space before it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.data.normalise import normalise
from regard.data.ragged import Sentences
from regard.data.tokenizer._base import SPACE, SPECIALS, Tokenizer
from regard.data.vectors.file import words_in
from regard.errors import UserError
from regard.special_tokens import END, UNKNOWN

__all__ = ["Word"]

_FILE = "tokenizer.json"
_TOKEN = re.compile(r" ?(?:\w+|[^\w ])")


class Word(Tokenizer):
    """Whole words and punctuation marks; rare words are unknown."""

    kind: ClassVar[str] = "word"

    def __init__(self, words: Sequence[str], lowercase: bool = False) -> None:
        self._words = [*SPECIALS, *words]
        self._ids = {word: i + len(SPECIALS) for i, word in enumerate(words)}
        self._lowercase = lowercase

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        *,
        seed: int,
        size: int = 30000,
        min_count: int = 1,
        lowercase: bool = False,
        words_of: str = "",
    ) -> Word:
        """The `size` - 4 most frequent tokens that occur at least `min_count` times; `seed` has no effect.

        Where there is room, words of the file `words_of` follow: what has a vector need not occur in the text.
        """
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(_split(line, lowercase))
        if not counts:
            raise UserError("tokenizer: no text to learn words from; the corpus is empty")
        # Ties are ordered by text, so that the order of the lines does not matter.
        frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: max(size - len(SPECIALS), 0)]
        words = [word for word, count in frequent if count >= min_count]
        if words_of:
            more = dict.fromkeys(token for word in words_in(Path(words_of)) for token in _split(word, lowercase)[:1])
            known = set(words)
            words += [token for token in more if token not in known][: max(0, size - len(SPECIALS) - len(words))]
        return cls(words, lowercase)

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], **options: Any) -> Word:
        saved = json.loads(files[_FILE])
        return cls(saved["words"], saved["lowercase"])

    def files(self) -> dict[str, bytes]:
        saved = {"kind": self.kind, "lowercase": self._lowercase, "words": self._words[len(SPECIALS) :]}
        return {_FILE: json.dumps(saved, ensure_ascii=False, indent=0).encode()}

    def __len__(self) -> int:
        return len(self._words)

    def encode(self, text: str) -> list[int]:
        return [self._ids.get(word, UNKNOWN) for word in _split(text, self._lowercase)]

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


def _split(text: str, lowercase: bool) -> list[str]:
    text = normalise(text)
    if lowercase:
        text = normalise(text.lower())
    return [token.replace(" ", SPACE) for token in _TOKEN.findall(" " + text)] if text else []
