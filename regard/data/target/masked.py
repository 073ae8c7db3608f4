"""The input itself, some of which is to be hidden and guessed: it needs no labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.format._base import Example
from regard.data.input._base import Input
from regard.data.target._base import Target
from regard.types import END

__all__ = ["Masked"]

FILE = "target.json"


class Masked(Target):
    """Says how many tokens are to be guessed, 15 of a hundred and at least one (Devlin et al. 2019, 3.1).

    Which ones, the model draws anew each time. That the number stands here lets everybody know what the loss is
    averaged over, before it is computed.
    """

    kind: ClassVar[str] = "masked"

    def __init__(self, share: float = 0.15) -> None:
        self.share = share

    @classmethod
    def fit(cls, examples: Sequence[Example], *, seed: int, **options: Any) -> Masked:
        return cls()

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Masked:
        return cls(float(json.loads(files[FILE])["share"]))

    def files(self) -> dict[str, bytes]:
        return {FILE: json.dumps({"share": self.share}).encode()}

    def sizes(self) -> dict[str, int]:
        return {}

    def encode(self, example: Example, input: Input) -> tuple[np.ndarray, np.ndarray]:
        return self.of(input.encode(example.input))

    def of(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One place for each token to be guessed. Words that the vocabulary does not hold cannot be."""
        known = int((ids > END).sum())
        count = max(1, round(self.share * known)) if known else 0
        return np.zeros(count, np.int64), np.ones(count, dtype=bool)
