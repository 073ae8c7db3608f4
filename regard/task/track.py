"""Tracking: frames in, where the object is in each of them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, overload

import numpy as np
import torch

from regard.data.format._base import Example
from regard.data.input._accepted import ClipLike
from regard.data.input._base import Raw
from regard.task._base import ExampleTask, Progress
from regard.task._one_or_many import one_or_many
from regard.types import Validation

__all__ = ["Tracker"]


@dataclass
class Track:
    """Where the object was in each frame, 0 to 1 from the left and from the top."""

    places: list[tuple[float, float]]
    spreads: list[float]
    """How far off the model expects to be in each frame, on average, in the same measure."""


class Tracker(ExampleTask):
    """A model that follows one object through a clip, also where something hides it."""

    usual: ClassVar[dict[str, Any]] = {"kind": "tracker"}
    target: ClassVar[str] = "coordinates"
    unit: ClassVar[str] = "frames"
    usage: ClassVar[str] = "track {model} clip.gif"

    @overload
    def track(self, clips: ClipLike, progress: Progress | None = None) -> Track: ...  # type: ignore[overload-overlap]
    @overload
    def track(self, clips: Iterable[ClipLike], progress: Progress | None = None) -> list[Track]: ...
    def track(self, clips: Any, progress: Progress | None = None) -> Any:
        """Where the object is in each frame of a clip, or the list of that for many clips."""
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
        """The mean distance from where the object is, in hundredths of the picture's side; beside it that of one who
        says of each frame where the object was in the frame before."""
        tracks = self.track(self.inputs(valid))
        wanted = [np.asarray(example.target) for example in valid]
        given = [np.array(track.places) for track in tracks]
        copied = [np.concatenate([places[:1], places[:-1]]) for places in wanted]
        scores = {"error": distance(given, wanted), "copy_error": distance(copied, wanted), "loss": self.loss(valid)}
        ends = [(f"({len(w)} frames)", _shown(g[-1]), _shown(w[-1])) for g, w in zip(given, wanted)]
        return Validation(scores, self.samples(ends))


def distance(given: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """The mean over all frames of how far two points are apart, in hundredths."""
    apart = [np.sqrt(((g - w) ** 2).sum(-1)) for g, w in zip(given, wanted, strict=True)]
    return 100 * float(np.concatenate(apart).mean())


def _shown(place: np.ndarray) -> str:
    return f"{place[0]:.2f} {place[1]:.2f}"
