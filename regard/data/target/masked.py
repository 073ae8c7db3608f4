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
from regard.registry import MOST
from regard.special_tokens import END, UNKNOWN

__all__ = ["Masked"]

FILE = "target.json"


class Masked(Target):
    """The number of tokens to predict: 15 % of them, at least one (Devlin et al. 2019, 3.1).

    The model draws anew which ones. The number is fixed here, because the loss is averaged over it.
    """

    kind: ClassVar[str] = "masked"

    def __init__(self, share: float = 0.15, mask: int = UNKNOWN) -> None:
        """`mask` is the token that hides another one: an imported model has an id of its own for it."""
        self.share, self.mask = share, mask

    @classmethod
    def sample(cls) -> TargetSample:
        return TargetSample("text", [Example(text, None) for text in Text.sample()])

    @classmethod
    def fit(cls, examples: Sequence[Example], *, seed: int, **options: Any) -> Masked:
        return cls()

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Masked:
        try:
            saved = json.loads(files[FILE])
            share, mask = saved["share"], saved.get("mask", UNKNOWN)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            share = mask = None
        if type(share) is not float or not 0 < share <= 1 or type(mask) is not int or not 0 <= mask < MOST:
            raise UserError(f"{FILE}: does not describe masked tokens; the model folder is damaged")
        return cls(share, mask)

    def files(self) -> dict[str, bytes]:
        own = {} if self.mask == UNKNOWN else {"mask": self.mask}
        return {FILE: json.dumps({"share": self.share, **own}).encode()}

    def sizes(self) -> dict[str, int]:
        return {"mask": self.mask}

    def encode(self, example: Example, input: Input) -> tuple[np.ndarray, np.ndarray]:
        return self.of(input.encode(example.input))

    def of(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One position per token to predict. Unknown words cannot be predicted."""
        known = int((ids > END).sum())
        count = max(1, round(self.share * known)) if known else 0
        return np.zeros(count, np.int64), np.ones(count, dtype=bool)
