"""Masked tokens: some of the input itself is the target, so no labels are needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.format._base import Example
from regard.data.input._base import Input
from regard.data.input.text import Text
from regard.data.target._base import Target, TargetSample
from regard.errors import UserError
from regard.special_tokens import END

__all__ = ["Masked"]

FILE = "target.json"


class Masked(Target):
    """The number of tokens to predict: 15 % of them, at least one (Devlin et al. 2019, 3.1).

    The model draws anew which ones. The number is fixed here, because the loss is averaged over it.
    """

    kind: ClassVar[str] = "masked"

    def __init__(self, share: float = 0.15) -> None:
        self.share = share

    @classmethod
    def sample(cls) -> TargetSample:
        return TargetSample("text", [Example(text, None) for text in Text.sample()])

    @classmethod
    def fit(cls, examples: Sequence[Example], *, seed: int, **options: Any) -> Masked:
        return cls()

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Masked:
        try:
            share = json.loads(files[FILE])["share"]
        except (KeyError, TypeError, ValueError, RecursionError):
            share = None
        if type(share) is not float or not 0 < share <= 1:
            raise UserError(f"{FILE}: does not describe masked tokens; the model folder is damaged")
        return cls(share)

    def files(self) -> dict[str, bytes]:
        return {FILE: json.dumps({"share": self.share}).encode()}

    def sizes(self) -> dict[str, int]:
        return {}

    def encode(self, example: Example, input: Input) -> tuple[np.ndarray, np.ndarray]:
        return self.of(input.encode(example.input))

    def of(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One position per token to predict. Unknown words cannot be predicted."""
        known = int((ids > END).sum())
        count = max(1, round(self.share * known)) if known else 0
        return np.zeros(count, np.int64), np.ones(count, dtype=bool)
