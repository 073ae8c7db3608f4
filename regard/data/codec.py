"""What goes between raw examples and a model's numbers, both ways. It is saved with the model."""

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
    """All that saving a model and building it need to know."""

    def files(self) -> dict[str, bytes]: ...

    def sizes(self) -> dict[str, int]:
        """What the parts of a model are told of the data: vocabulary, channels, labels, ..."""
        ...


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
        """Learns both from training examples; an input that another model brings along is kept."""
        reader = input
        if isinstance(reader, str):
            reader = registry.factory("data/input", reader).fit(  # type: ignore[attr-defined]
                [example.input for example in examples], seed=seed, **input_options
            )
        made = registry.factory("data/target", target).fit(examples, seed=seed, **target_options)  # type: ignore[attr-defined]
        return cls(cast(Input, reader), made)

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], input: str, target: str) -> Pair:
        return cls(
            registry.factory("data/input", input).from_files(files),  # type: ignore[attr-defined]
            registry.factory("data/target", target).from_files(files),  # type: ignore[attr-defined]
        )

    def files(self) -> dict[str, bytes]:
        return {**self.input.files(), **self.target.files()}

    def sizes(self) -> dict[str, int]:
        return {**self.input.sizes(), **self.target.sizes()}

    def encode(self, example: Example) -> Coded:
        return next(self.encode_all([example]))

    def encode_all(self, examples: Sequence[Example]) -> Iterator[Coded]:
        """The input that several examples share, a picture with five captions, is encoded once and is one array."""
        sources: dict[int, np.ndarray] = {}  # by identity, which is theirs as long as the examples are there
        for example in examples:
            key = id(example.input)
            if key not in sources:
                sources[key] = self.input.encode(example.input)
            yield Coded(sources[key], *self.target.encode(example, self.input))
