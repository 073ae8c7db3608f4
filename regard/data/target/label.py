"""A class label."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.format._base import Example
from regard.data.input._base import Input
from regard.data.input.text import Text
from regard.data.target._base import Target, TargetSample
from regard.errors import UserError, suggestion

__all__ = ["Label"]

FILE = "labels.json"
MOST = 100_000


class Label(Target):
    """The labels of the training examples, in alphabetical order."""

    kind: ClassVar[str] = "label"
    types: ClassVar[tuple[type, ...]] = (str,)
    needs: ClassVar[str] = "a label"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._ids = {name: i for i, name in enumerate(self.names)}

    @classmethod
    def sample(cls) -> TargetSample:
        return TargetSample("text", [Example(*pair) for pair in zip(Text.sample(), ("good", "bad", "good"))])

    @classmethod
    def fit(cls, examples: Sequence[Example], *, seed: int, **options: Any) -> Label:
        names = sorted({str(example.target) for example in examples})
        if not 2 <= len(names) <= MOST:
            raise UserError(f"data.train: {len(names)} different labels; a classifier needs 2 to {MOST:,}")
        return cls(names)

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Label:
        try:
            names = json.loads(files[FILE])["names"]
        except (KeyError, TypeError, ValueError, RecursionError):
            names = None
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise UserError(f"{FILE}: does not list labels; the model folder is damaged")
        return cls(names)

    def files(self) -> dict[str, bytes]:
        return {FILE: json.dumps({"names": self.names}, ensure_ascii=False, indent=0).encode()}

    def sizes(self) -> dict[str, int]:
        return {"labels": len(self.names)}

    def id(self, name: str) -> int:
        if name not in self._ids:
            raise UserError(f"label '{name}' was never seen in training{suggestion(name, self.names)}")
        return self._ids[name]

    def knows(self, example: Example) -> bool:
        return str(example.target) in self._ids

    def encode(self, example: Example, input: Input) -> tuple[np.ndarray, np.ndarray]:
        return np.array([self.id(str(example.target))]), np.ones(1, dtype=bool)
