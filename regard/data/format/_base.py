"""The interface of data formats: files to raw examples. Formats know nothing of inputs, stems or models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Example(NamedTuple):
    """One raw example, as read from a file."""

    input: Any
    target: Any


class Sample(NamedTuple):
    """A minimal data set: the content of each file by name, and the training examples that the files hold."""

    files: Mapping[str, bytes]
    examples: Sequence[Example]


class Format(ABC):
    """Files -> examples. The keywords of its constructor are the keys of a recipe's `[data.format]`."""

    @classmethod
    def sample(cls) -> Sample | None:
        """What files in this format look like; None for a format that makes its own examples.

        The contract tests (tests/contracts/test_format.py) hold the format to it.
        """
        return None

    @abstractmethod
    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        """The examples of a part: "train", "valid" or "test". `files` is empty for a format that makes its own."""
