"""The coordinates of an object in every frame of a clip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.format._base import Example
from regard.data.input._base import Input
from regard.data.input.clip import Clip
from regard.data.target._base import Target, TargetSample

__all__ = ["Coordinates"]


class Coordinates(Target):
    """One point per frame, 0 to 1 from the left and the top edge. Nothing is learnt from the data."""

    kind: ClassVar[str] = "coordinates"

    @classmethod
    def sample(cls) -> TargetSample:
        clips = Clip.sample()
        return TargetSample("clip", [Example(frames, np.full((len(frames), 2), 0.25)) for frames in clips])

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
        points = np.asarray(example.target, dtype=np.float32)
        return points, np.ones(len(points), dtype=bool)
