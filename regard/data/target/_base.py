"""What a kind of target must offer. It knows nothing of models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.format._base import Example
from regard.data.input._base import Input
from regard.errors import UserError


class Target(ABC):
    """What is wanted of an example -> (values, where they are wanted), each with one entry a position."""

    kind: ClassVar[str]
    types: ClassVar[tuple[type, ...]] = (object,)
    """The types that the target of a raw example may have."""
    needs: ClassVar[str] = "a target"
    """What that is in words, for error messages."""

    @classmethod
    @abstractmethod
    def fit(cls, examples: Sequence[Example], *, seed: int, **options: Any) -> Target:
        """Learns names or a vocabulary from training examples."""

    @classmethod
    @abstractmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Target: ...

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """What is saved in a model folder."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """What a head or decoder is told: labels, vocabulary."""

    @abstractmethod
    def encode(self, example: Example, input: Input) -> tuple[np.ndarray, np.ndarray]:
        """Values (T, ...) and where they are wanted (T,); some targets lie at places that only the input knows."""


def check_target(target: Any, kind: type[Target], format: str) -> None:
    """Refuses examples of a format whose targets are of another kind than the task needs."""
    if not isinstance(target, kind.types):
        raise UserError(f"data.format: this task needs {kind.needs}, which {format} does not give; use another format")
