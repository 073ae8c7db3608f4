"""Text: token ids. A list of words is encoded word by word, so that the position of each word is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from regard.data.input._accepted import refused
from regard.data.input._base import Input
from regard.data.tokenizer import from_files as tokenizer_from_files
from regard.data.tokenizer import train as train_tokenizer
from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError
from regard.special_tokens import UNKNOWN

__all__ = ["Text"]

LONGEST = 1_000_000


class Text(Input):
    """A tokenizer trained on the training texts. Tasks cut the ids at `data.max_length`."""

    kind: ClassVar[str] = "text"
    varying: ClassVar[bool] = True
    takes: ClassVar[str] = "a text (str), or in a list of texts the list of its words"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    @classmethod
    def sample(cls) -> list[str]:
        return ["the cat sleeps", "a bird", "the old dog follows a bird"]

    @classmethod
    def fit(cls, raws: Sequence[Any], *, seed: int, **options: Any) -> Text:
        """`options` are the keys of the recipe's `[tokenizer]`."""
        lines = (raw if isinstance(raw, str) else " ".join(raw) for raw in raws)
        return cls(train_tokenizer(options, lines, seed))

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Text:
        return cls(tokenizer_from_files(files))

    def files(self) -> dict[str, bytes]:
        return self.tokenizer.files()

    def sizes(self) -> dict[str, int]:
        return {"vocabulary": len(self.tokenizer)}

    def read(self, argument: str, note: Callable[[str], None] = lambda text: None) -> str:
        if len(argument) > LONGEST:
            raise UserError(f"the text has {len(argument):,} characters; {LONGEST:,} are the most")
        if not argument.strip():
            raise UserError("the text is empty; write something")
        return argument

    def is_one(self, given: Any) -> bool:
        return isinstance(given, str)

    def accept(self, given: Any) -> str | list[str]:
        if isinstance(given, (list, tuple)) and all(isinstance(word, str) for word in given):
            return list(given)
        if not isinstance(given, str):
            raise refused(given, self.takes)
        return given

    def words(self, raw: str | Sequence[str]) -> list[list[int]]:
        """The ids of each word; a text that is not split into words counts as one."""
        if isinstance(raw, str):
            return [self.tokenizer.encode(raw) or [UNKNOWN]]
        return [self.tokenizer.encode(word) or [UNKNOWN] for word in raw]

    def encode(self, raw: str | Sequence[str]) -> np.ndarray:
        return np.fromiter(chain.from_iterable(self.words(raw)), np.int64)

    def word_positions(self, raw: Sequence[str]) -> np.ndarray:
        """The position of the first token of each word."""
        lengths = np.array([0, *(len(ids) for ids in self.words(raw))])
        return lengths.cumsum()[:-1]
