"""The interface of inputs: one kind of raw example to arrays. What an input learns is saved with the model."""

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
    """Whether lengths differ: batches are then padded along the first axis and masked, otherwise stacked."""

    takes: ClassVar[str]
    """What a caller in Python may pass as one input, for error messages."""

    @classmethod
    @abstractmethod
    def sample(cls) -> list[Raw]:
        """A few small raw examples, of different lengths where `varying`. The contract tests encode them."""

    @classmethod
    @abstractmethod
    def fit(cls, raws: Sequence[Raw], *, seed: int) -> Input:
        """Learns what it needs from training examples. Each kind adds its own keywords, the keys of `[input]`."""

    @classmethod
    @abstractmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Input:
        """The input that `files()` saved; damaged files are a UserError."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """What is saved in a model folder: names begin with `input.` or `tokenizer.`, numbers come back exactly."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """What a stem's constructor needs: channels and size, rate, features or vocabulary."""

    @abstractmethod
    def read(self, argument: str, note: Callable[[str], None] = lambda text: None) -> Raw:
        """Reads a command-line argument, a path or the text itself. `note` is called with what was changed in it."""

    @abstractmethod
    def is_one(self, given: Any) -> bool:
        """Whether this is a single input; otherwise it is taken for several."""

    @abstractmethod
    def accept(self, given: Any) -> Raw:
        """One input from Python (a path, bytes, an array, ...), checked and reduced to the size the model needs.

        Other types, and what cannot be read, are a UserError.
        """

    @abstractmethod
    def encode(self, raw: Raw) -> np.ndarray:
        """float32 (C, H, W), (N,), (T, C, H, W) or (T, F); int64 (S,) for text."""
