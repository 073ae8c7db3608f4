"""Text: token ids. A list of words is encoded word by word, so that the position of each word is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, TypeVar

import numpy as np

from regard.data.input._accepted import refused
from regard.data.input._base import Input
from regard.data.tokenizer import from_files as tokenizer_from_files
from regard.data.tokenizer import train as train_tokenizer
from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError
from regard.special_tokens import BEGIN, END, UNKNOWN
from regard.spelling import with_spelling

__all__ = ["Text"]

Ids = TypeVar("Ids", np.ndarray, list[int])
LONGEST = 1_000_000
FILE = "input.json"


class Text(Input):
    """A tokenizer trained on the training texts. Tasks cut the ids at `data.max_length`.

    With `enclosed` every text begins with BEGIN and ends with END, as for BERT; these two are not counted. With
    `spelled` every token is a row of numbers, its id and the spelling of its word (spelling.py).
    """

    kind: ClassVar[str] = "text"
    varying: ClassVar[bool] = True
    takes: ClassVar[str] = "a text (str), or in a list of texts the list of its words"

    def __init__(self, tokenizer: Tokenizer, enclosed: bool = False, spelled: bool = False) -> None:
        self.tokenizer, self.enclosed, self.spelled = tokenizer, enclosed, spelled

    @classmethod
    def sample(cls) -> list[str]:
        return ["the cat sleeps", "a bird", "the old dog follows a bird"]

    @classmethod
    def fit(cls, raws: Sequence[Any], *, seed: int, **options: Any) -> Text:
        """`options` are the keys of the recipe's `[tokenizer]`, and whether the stem reads spellings."""
        lines = (raw if isinstance(raw, str) else " ".join(raw) for raw in raws)
        spelled = bool(options.pop("spelled", False))
        return cls(train_tokenizer(options, lines, seed), spelled=spelled)

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Text:
        enclosed: Any = False
        spelled: Any = False
        if FILE in files:
            try:
                saved = json.loads(files[FILE])
                enclosed = saved["enclosed"] if saved["kind"] == cls.kind else None
                spelled = saved.get("spelled", False)
            except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
                enclosed = None
            if not isinstance(enclosed, bool) or not isinstance(spelled, bool) or (enclosed and spelled):
                raise UserError(f"{FILE}: does not describe texts; the model folder is damaged")
        return cls(tokenizer_from_files(files), enclosed, spelled)

    def files(self) -> dict[str, bytes]:
        if not self.enclosed and not self.spelled:
            return self.tokenizer.files()
        own = {"kind": self.kind, "enclosed": self.enclosed} | ({"spelled": True} if self.spelled else {})
        return {**self.tokenizer.files(), FILE: json.dumps(own).encode()}

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
        return [ids or [UNKNOWN] for ids in self.tokenizer.encode_words(raw)]

    def encode(self, raw: str | Sequence[str]) -> np.ndarray:
        if self.spelled:
            words = raw.split() or [raw] if isinstance(raw, str) else list(raw)
            return with_spelling(words, self.words(words))
        return self.enclose(np.fromiter(chain.from_iterable(self.words(raw)), np.int64))

    def enclose(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """The ids of a text as a model reads them."""
        return np.array([BEGIN, *ids, END] if self.enclosed else ids, dtype=np.int64)

    def bare(self, ids: Ids) -> Ids:
        """The ids of a text without what encloses it."""
        return ids[1:-1] if self.enclosed else ids

    def cut(self, ids: np.ndarray, longest: int) -> np.ndarray:
        """The ids of a text after whose `longest` tokens nothing follows."""
        return self.enclose(self.bare(ids)[:longest]) if len(self.bare(ids)) > longest else ids

    def word_positions(self, raw: Sequence[str]) -> np.ndarray:
        """The position of the first token of each word."""
        lengths = np.array([int(self.enclosed), *(len(ids) for ids in self.words(raw))])
        return lengths.cumsum()[:-1]
