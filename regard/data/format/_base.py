"""What a format must offer. It knows files and raw examples; it knows nothing of inputs, stems or models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Example(NamedTuple):
    """One raw example, as it was read."""

    input: Any
    target: Any


class Format(ABC):
    """Files -> examples. Its constructor's keywords are the keys of the recipe's `[data.format]`."""

    @abstractmethod
    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        """The examples of a part: "train", "valid" or "test", or "all" that the files hold (a user's own test files).

        A format that makes its own examples is given no files.
        """
