"""Real values at every frame: where something is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.format._base import Example
from regard.data.input._base import Input
from regard.data.target._base import Target

__all__ = ["Coordinates"]


class Coordinates(Target):
    """Points in the picture, 0 to 1 from its left and upper edge, one a frame. There is nothing to learn of them."""

    kind: ClassVar[str] = "coordinates"

    @classmethod
    def fit(cls, examples: Sequence[Example], *, seed: int, **options: Any) -> Coordinates:
        return cls()

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Coordinates:
        return cls()

    def files(self) -> dict[str, bytes]:
        return {}

    def sizes(self) -> dict[str, int]:
        return {}

    def encode(self, example: Example, input: Input) -> tuple[np.ndarray, np.ndarray]:
        places = np.asarray(example.target, dtype=np.float32)
        return places, np.ones(len(places), dtype=bool)
