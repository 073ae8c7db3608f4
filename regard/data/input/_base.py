"""What a kind of input must offer. What it learns of the training examples is saved with the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

Raw = Any
"""What a format reads: str, list[str], np.uint8 (H, W, C), Sound, np.uint8 (T, H, W, C) or np.float32 (T, F)."""


class Input(ABC):
    """One kind of raw example -> one array each. Abstract: every kind is a file beside this one."""

    kind: ClassVar[str]
    varying: ClassVar[bool]
    """Lengths differ: a batch is padded along the first axis and masked. Otherwise it is stacked."""

    takes: ClassVar[str]
    """One input as a caller in Python may give it, for error messages."""

    @classmethod
    @abstractmethod
    def fit(cls, raws: Sequence[Raw], *, seed: int) -> Input:
        """Learns from training examples what it needs; each kind adds its own keywords, the keys of `[input]`."""

    @classmethod
    @abstractmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Input: ...

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """What is saved in a model folder: every name begins with `input.`, every number comes back exactly."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """What a stem is told: channels and size, rate, features or vocabulary."""

    @abstractmethod
    def read(self, argument: str, note: Callable[[str], None] = lambda text: None) -> Raw:
        """What a user names on the command line, a path or the text itself. `note` is told what was changed in it."""

    @abstractmethod
    def is_one(self, given: Any) -> bool:
        """Whether this is one input; else it can only be several."""

    @abstractmethod
    def accept(self, given: Any) -> Raw:
        """One input as a caller in Python has it (a path, bytes, an array, ...), checked, and no larger than the model
        needs it. What is of another type, or cannot be read, is a UserError."""

    @abstractmethod
    def encode(self, raw: Raw) -> np.ndarray:
        """float32 (C, H, W), (N,), (T, C, H, W) or (T, F); int64 (S,) for text."""
