"""One tag per word, at the position of its first token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.format._base import Example
from regard.data.input._base import Input
from regard.data.input.text import Text
from regard.data.target._base import Target, TargetSample
from regard.data.target.label import MOST, Label
from regard.errors import UserError

__all__ = ["Tags"]


class Tags(Target):
    """The tags of the training examples, in alphabetical order. A word's further tokens have no tag."""

    kind: ClassVar[str] = "tags"
    types: ClassVar[tuple[type, ...]] = (list, tuple)
    needs: ClassVar[str] = "a tag for every word"

    def __init__(self, labels: Label) -> None:
        self.labels = labels

    @classmethod
    def sample(cls) -> TargetSample:
        words = [text.split() for text in Text.sample()]
        return TargetSample("text", [Example(some, ["O", *["B-x"] * (len(some) - 1)]) for some in words])

    @classmethod
    def fit(cls, examples: Sequence[Example], *, seed: int, **options: Any) -> Tags:
        names = sorted({tag for example in examples for tag in example.target})
        if not 2 <= len(names) <= MOST:
            raise UserError(f"data.train: {len(names)} different tags; a tagger needs 2 to {MOST:,}")
        return cls(Label(names))

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Tags:
        return cls(Label.from_files(files))

    def files(self) -> dict[str, bytes]:
        return self.labels.files()

    def sizes(self) -> dict[str, int]:
        return self.labels.sizes()

    def knows(self, example: Example) -> bool:
        return all(self.labels.knows(Example(None, tag)) for tag in example.target)

    def encode(self, example: Example, input: Input) -> tuple[np.ndarray, np.ndarray]:
        """Ends at the first token of the last word."""
        words, tags = example
        if not isinstance(input, Text):
            raise UserError(f"model.stem: tags are for words, but the stem reads {input.kind}; use tokens")
        if len(words) != len(tags):
            raise UserError(f"an example has {len(words)} words but {len(tags)} tags; give each word one")
        positions = input.word_positions(words)
        values = np.zeros(positions[-1] + 1 if len(positions) else 0, np.int64)
        mask = np.zeros(len(values), dtype=bool)
        values[positions], mask[positions] = [self.labels.id(tag) for tag in tags], True
        return values, mask
