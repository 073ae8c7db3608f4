"""The codec between raw examples and a model's numbers. It is saved with the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from regard import registry
from regard.data.examples import Coded
from regard.data.format._base import Example
from regard.data.input._base import Input
from regard.data.target._base import Target


@runtime_checkable
class Codec(Protocol):
    """What saving and building a model need to know."""

    def files(self) -> dict[str, bytes]: ...

    def sizes(self) -> dict[str, int]:
        """Sizes that the parts of a model take from the data: vocabulary, channels, labels, ..."""
        ...


def input_class(kind: str) -> type[Input]:
    return cast(type[Input], registry.factory("data/input", kind))


def target_class(kind: str) -> type[Target]:
    return cast(type[Target], registry.factory("data/target", kind))


@dataclass
class Pair:
    """A kind of input and a kind of target."""

    input: Input
    target: Target

    @classmethod
    def fit(
        cls,
        examples: Sequence[Example],
        input: str | Input,
        target: str,
        *,
        seed: int,
        input_options: Mapping[str, Any],
        target_options: Mapping[str, Any],
    ) -> Pair:
        """Learns both from training examples. An `input` that is already fitted, another model's, is kept."""
        if isinstance(input, str):
            input = input_class(input).fit([example.input for example in examples], seed=seed, **input_options)
        return cls(input, target_class(target).fit(examples, seed=seed, **target_options))

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], input: str, target: str) -> Pair:
        return cls(input_class(input).from_files(files), target_class(target).from_files(files))

    def files(self) -> dict[str, bytes]:
        return {**self.input.files(), **self.target.files()}

    def sizes(self) -> dict[str, int]:
        return {**self.input.sizes(), **self.target.sizes()}

    def encode(self, example: Example) -> Coded:
        return next(self.encode_all([example]))

    def encode_all(self, examples: Sequence[Example]) -> Iterator[Coded]:
        """An input shared by several examples, such as a picture with five captions, is encoded once."""
        sources: dict[int, np.ndarray] = {}  # by identity, which is unique while the examples exist
        for example in examples:
            key = id(example.input)
            if key not in sources:
                sources[key] = self.input.encode(example.input)
            yield Coded(sources[key], *self.target.encode(example, self.input))
