"""A tag for every word, at the place of its first token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.format._base import Example
from regard.data.input._base import Input
from regard.data.input.text import Text
from regard.data.target._base import Target
from regard.data.target.label import MOST, Label
from regard.errors import UserError

__all__ = ["Tags"]


class Tags(Target):
    """The tags are those of the training examples, in alphabetical order. A word's other tokens get none."""

    kind: ClassVar[str] = "tags"
    types: ClassVar[tuple[type, ...]] = (list, tuple)
    needs: ClassVar[str] = "a tag for every word"

    def __init__(self, labels: Label) -> None:
        self.labels = labels

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

    def encode(self, example: Example, input: Input) -> tuple[np.ndarray, np.ndarray]:
        """As long as up to the first token of the last word."""
        words, tags = example
        if not isinstance(input, Text):
            raise UserError(f"model.stem: tags are for words, but the stem reads {input.kind}; use tokens")
        if len(words) != len(tags):
            raise UserError(f"an example has {len(words)} words but {len(tags)} tags; give each word one")
        places = input.places(words)
        values = np.zeros(places[-1] + 1 if len(places) else 0, np.int64)
        wanted = np.zeros(len(values), dtype=bool)
        values[places], wanted[places] = [self.labels.id(tag) for tag in tags], True
        return values, wanted
