"""Tracking: frames in, the position of the object in each of them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, overload

import numpy as np
import torch

from regard.data.format._base import Example
from regard.data.input._accepted import ClipLike
from regard.data.input._base import Raw
from regard.task._base import Progress
from regard.task._examples import ExampleTask
from regard.task._one_or_many import one_or_many
from regard.types import Better, Validation

__all__ = ["Tracker"]


@dataclass
class Track:
    """The position of the object in each frame, 0 to 1 from the left and from the top."""

    places: list[tuple[float, float]]
    spreads: list[float]
    """The error that the model expects in each frame, on average, in the same units."""


class Tracker(ExampleTask):
    """A model that tracks one object through a clip, even while it is hidden."""

    usual: ClassVar[dict[str, Any]] = {"kind": "tracker"}
    target: ClassVar[str] = "coordinates"
    unit: ClassVar[str] = "frames"
    usage: ClassVar[str] = "track {model} clip.gif"
    scores: ClassVar[dict[str, Better]] = {"error": "lower", "copy_error": "lower", "loss": "lower"}

    @overload
    def track(self, clips: ClipLike, progress: Progress | None = None) -> Track: ...  # type: ignore[overload-overlap]
    @overload
    def track(self, clips: Iterable[ClipLike], progress: Progress | None = None) -> list[Track]: ...
    def track(self, clips: Any, progress: Progress | None = None) -> Any:
        """Tracks the object through a clip, or through many into a list.

        Args:
            clips: A clip (a path, bytes or frames), or an iterable of clips.
            progress: Called with the number of inputs finished since the last call.

        Returns:
            A `Track`, or a list of them.
        """
        return one_or_many(clips, self.pair.input, lambda raws: self._track(raws, progress))

    @torch.inference_mode()
    def _track(self, raws: Sequence[Raw], progress: Progress | None) -> list[Track]:
        found: dict[int, Track] = {}
        for indexes, source, mask in self.batches(raws, progress):
            places, spreads = (part.cpu() for part in self.model(source, mask))
            for index, row, spread, real in zip(indexes, places, spreads, mask.cpu()):
                x, y = row[real].T.tolist()
                found[index] = Track(list(zip(x, y)), spread[real].tolist())
        return [found[i] for i in range(len(raws))]

    def judge(self, valid: Sequence[Example]) -> Validation:
        """The mean distance from the true position in percent of the picture's side; `copy_error` is that of repeating
        the true position of the previous frame."""
        tracks = self.track(self.inputs(valid))
        truth = [np.asarray(example.target) for example in valid]
        predicted = [np.array(track.places) for track in tracks]
        copied = [np.concatenate([points[:1], points[:-1]]) for points in truth]
        scores = {"error": distance(predicted, truth), "copy_error": distance(copied, truth), "loss": self.loss(valid)}
        ends = [(f"({len(t)} frames)", _shown(p[-1]), _shown(t[-1])) for p, t in zip(predicted, truth)]
        return Validation(scores, self.samples(ends))


def distance(predicted: Sequence[np.ndarray], truth: Sequence[np.ndarray]) -> float:
    """The mean distance of two points over all frames, in hundredths."""
    apart = [np.sqrt(((p - t) ** 2).sum(-1)) for p, t in zip(predicted, truth, strict=True)]
    return 100 * float(np.concatenate(apart).mean())


def _shown(point: np.ndarray) -> str:
    return f"{point[0]:.2f} {point[1]:.2f}"
