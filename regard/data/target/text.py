"""Text to generate token by token: BEGIN, the tokens, END."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.format._base import Example
from regard.data.input._base import Input
from regard.data.input.text import Text as TextInput
from regard.data.target._base import Target, TargetSample
from regard.data.tokenizer import from_files as tokenizer_from_files
from regard.data.tokenizer import train as train_tokenizer
from regard.data.tokenizer._base import Tokenizer
from regard.special_tokens import BEGIN, END

__all__ = ["Text"]


class Text(Target):
    """A tokenizer trained on the training targets. Of several references the first is encoded."""

    kind: ClassVar[str] = "text"
    types: ClassVar[tuple[type, ...]] = (str, list, tuple)
    needs: ClassVar[str] = "a text"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.opening: Sequence[int] = ()
        """Tokens between BEGIN and the text, which say what is to be written."""

    @classmethod
    def sample(cls) -> TargetSample:
        texts = TextInput.sample()
        return TargetSample("text", [Example(source, target) for source, target in zip(texts, texts[::-1])])

    @classmethod
    def fit(cls, examples: Sequence[Example], *, seed: int, **options: Any) -> Text:
        """`options` are the keys of the recipe's `[tokenizer]`."""
        lines = (text for example in examples for text in references(example.target))
        return cls(train_tokenizer(options, lines, seed))

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Text:
        return cls(tokenizer_from_files(files))

    def files(self) -> dict[str, bytes]:
        return self.tokenizer.files()

    def sizes(self) -> dict[str, int]:
        return {"vocabulary": len(self.tokenizer)}

    def encode(self, example: Example, input: Input) -> tuple[np.ndarray, np.ndarray]:
        ids = np.array([BEGIN, *self.opening, *self.tokenizer.encode(references(example.target)[0]), END])
        return ids, ids != BEGIN


def references(target: str | Sequence[str]) -> list[str]:
    """All reference texts of a target, which is one text or a list."""
    return [target] if isinstance(target, str) else list(target)
