"""An image or recording as the model reads it: its pixels or spectrogram as a Scene, and the model's input tensors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from regard.errors import UserError
from regard.inspection.record.attribution import Axis
from regard.inspection.trace.scene import Scene
from regard.stem.frames import RANGE, Frames
from regard.stem.log_mel import LogMel

if TYPE_CHECKING:
    from regard.task._examples import ExampleTask

MOST_PLACES = 1024
"""A trace grows with the square of the number of places."""
MOST_READ = 6000
"""Of a trace without the encoder's attention it does not."""


def scene_of(task: ExampleTask, given: Any, most: int | None = None) -> tuple[Scene, Tensor, Tensor, Any]:
    """The scene, the model's input and mask, and the raw input as the task's input reads it; `most` places, or else
    MOST_PLACES."""
    most = MOST_PLACES if most is None else most
    raw, name, notes = read_input(task, given)
    _, source, mask = next(iter(task.batches([raw])))
    stem = task.model.stem
    if stem.longest is not None and source.shape[1] > stem.longest:
        rate = task.pair.input.sizes()["rate"]
        raise UserError(
            f"{name or 'the recording'}: is {source.shape[1] / rate:.0f} seconds long; at most the "
            f"{stem.longest / rate:g} of this model's window can be inspected, so cut it"
        )
    if isinstance(stem, (Frames, LogMel)):
        scene = _spectrogram(stem, source, mask, name)
    else:
        rows, columns = stem.grid
        places = [f"r{row} c{column}" for row in range(rows) for column in range(columns)]
        scene = Scene(name, task.pair.input.shaped(raw), rows, columns, places, stem.prepended)  # type: ignore[attr-defined]
    if (count := len(scene.places) + len(scene.behind)) > most:
        raise UserError(f"{name}: has {count} places; at most {most} can be inspected")
    scene.notes = notes + scene.notes
    return scene, source, mask, raw


def copied(source: Tensor, mask: Tensor, copies: int) -> tuple[Tensor, Tensor]:
    """Copies of a model's input that can be differentiated through, unlike tensors made in inference mode."""
    return tuple(one.clone().expand(copies, *one.shape[1:]) for one in (source, mask))  # type: ignore[return-value]


def places_axis(scene: Scene) -> Axis:
    """The places as inputs of an attribution; a class token is none."""
    return Axis(scene.tokens, skipped=scene.before)


def read_input(task: ExampleTask, given: Any) -> tuple[Any, str, list[str]]:
    """The raw input, its name, and notes on what was changed in it. `given` is a path, a file's bytes, or pixels."""
    notes: list[str] = []
    if isinstance(given, bytes):
        name = {"image": "the picture", "sound": "the recording"}[task.pair.input.kind]
        return task.pair.input.decode(given, name, notes.append), name, notes  # type: ignore[attr-defined]
    if isinstance(given, str | Path):
        name = Path(given).name
        raw = task.pair.input.read(str(given), notes.append)
        # A trace that is shared should not reveal the folder.
        return raw, name, [note.replace(str(given), name) for note in notes]
    return task.pair.input.accept(given), "", notes


def _spectrogram(stem: Frames | LogMel, source: Tensor, mask: Tensor, name: str) -> Scene:
    """The spectrogram as an image: low frequencies at the bottom, loud is bright. The last place may exceed the end.

    Of a window that is filled up with silence the recording alone is drawn."""
    spectrogram, frames = stem.spectrogram(source, mask)
    power = spectrogram[0, : int(frames.sum())].cpu().numpy()
    _, places = stem(source, mask)
    tokens = int(places.sum())
    merged = math.prod(one.stride[0] for one in stem.convolutions)  # type: ignore[union-attr, index, misc]
    count = min(tokens, -(-len(power) // merged))
    loudest = float(power.max())
    shades = ((power - loudest) / RANGE + 1).clip(0, 1) * 255
    whole = np.zeros((count * merged, shades.shape[1]), np.uint8)
    whole[: len(shades)] = shades.round()[: len(whole)]
    seconds = merged * stem.hop / stem.rate
    names = [f"{number * seconds:.2f} s" for number in range(tokens)]
    scene = Scene(name, whole.T[::-1, :, None].copy(), 1, count, names[:count], behind=names[count:])
    if scene.behind:
        scene.notes = [
            f"the model reads a window of {tokens * seconds:g} seconds, filled up with silence, which is not drawn"
        ]
    return scene
