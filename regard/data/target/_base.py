"""The interface of targets: what a model should predict, as numbers. Targets know nothing of models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard.data.format._base import Example
from regard.data.input._base import Input


class TargetSample(NamedTuple):
    """A few examples of a kind of target, and the kind of input they have."""

    input: str
    examples: list[Example]


class Target(ABC):
    """The target of an example -> (values, mask), with one entry per position. The mask: which count in the loss."""

    kind: ClassVar[str]

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

    @abstractmethod
    def encode(self, example: Example, input: Input) -> tuple[np.ndarray, np.ndarray]:
        """Values (T, ...) and mask (T,). `input` is for targets whose positions depend on how the input is encoded."""
