"""The interface of targets: what a model should predict, as numbers. Targets know nothing of models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard.data.format._base import Example
from regard.data.input._base import Input
from regard.errors import UserError


class TargetSample(NamedTuple):
    """A few examples of a kind of target, and the kind of input they have."""

    input: str
    examples: list[Example]


class Target(ABC):
    """The target of an example -> (values, mask), with one entry per position. The mask: which count in the loss."""

    kind: ClassVar[str]
    types: ClassVar[tuple[type, ...]] = (object,)
    """The types that the target of a raw example may have."""
    needs: ClassVar[str] = "a target"
    """What that is in words, for error messages."""

    @classmethod
    @abstractmethod
    def sample(cls) -> TargetSample:
        """A few small examples, of different lengths where lengths vary. The contract tests encode them."""

    @classmethod
    @abstractmethod
    def fit(cls, examples: Sequence[Example], *, seed: int, **options: Any) -> Target:
        """Learns names or a vocabulary from training examples."""

    @classmethod
    @abstractmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Target:
        """The target that `files()` saved; damaged files are a UserError."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """What is saved in a model folder."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """What the constructor of a head or decoder needs: labels, vocabulary."""

    def knows(self, example: Example) -> bool:
        """Whether this target can state the example's: False for a label that it does not have."""
        return True

    @abstractmethod
    def encode(self, example: Example, input: Input) -> tuple[np.ndarray, np.ndarray]:
        """Values (T, ...) and mask (T,). `input` is for targets whose positions depend on how the input is encoded."""


def check_target(target: Any, kind: type[Target], format: str) -> None:
    """Refuses examples of a format whose targets are of another kind than the task needs."""
    if not isinstance(target, kind.types):
        raise UserError(f"data.format: this task needs {kind.needs}, which {format} does not give; use another format")
