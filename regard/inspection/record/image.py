"""A picture seen from inside: classified, or written about; and a recording, whose picture is its spectrogram.

As with translations (_looking.py) what is written is searched as always, and then the finished text goes through the
model once more, alone and watched.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.decoding.step_callback import Step, on_step
from regard.errors import UserError
from regard.inspection.record import layers as told
from regard.inspection.record.arithmetic.selection import follower
from regard.inspection.record.translation import in_words, searched
from regard.inspection.trace.base import READING, WRITING, Side
from regard.inspection.trace.image import CaptionLook, PictureLook
from regard.inspection.trace.scene import Scene
from regard.inspection.trace.translation import Candidate
from regard.layers.capture import capture
from regard.stem.frames import RANGE, Frames
from regard.types import BEGIN, END

if TYPE_CHECKING:
    from regard.task._base import ExampleTask
    from regard.task._writing import Writer
    from regard.task.classify import Classifier

MOST_PLACES = 1024
"""What is seen grows with their square."""


@torch.inference_mode()
def look_at_picture(classifier: Classifier, given: Any, name: str = "") -> PictureLook:
    """What a classifier of pictures did with one: a file by its name or its bytes, or pixels (H, W, 1 or 3)."""
    raw, called, notes = opened(classifier, given)
    scene, source, mask = _scene(classifier, raw, called, notes)
    model = classifier.model
    modules = dict(model.named_modules())
    with capture(model) as seen:
        logits = model(source, mask)
    row = logits[0].float().softmax(-1).tolist()
    ranked = sorted(zip(classifier.labels.names, row), key=lambda pair: -pair[1])
    count = len(scene.tokens)
    shown = PictureLook(
        model=name,
        scene=scene,
        label=ranked[0][0],
        probabilities=dict(ranked),
        attention=told.attention(modules, seen),
        gates=told.gates(modules, seen, {READING: count, WRITING: 0}),
        ponder=told.ponder(modules, seen),
        positions=told.positions(modules, max(told.POSITIONS, count), classifier.device),
    )
    shown.calculate = follower(model, lambda: model(source, mask))
    return shown


@torch.inference_mode()
def look_while_writing(
    writer: Writer,
    given: Any,
    name: str = "",
    beam: int | None = None,
    length_penalty: float | None = None,
    max_length: int | None = None,
    n_best: int = 1,
) -> CaptionLook:
    """What a model did to write about one picture or recording, given as above."""
    raw, called, notes = opened(writer, given)
    scene, source, mask = _scene(writer, raw, called, notes)
    model, tokenizer = writer.model, writer.tokenizer
    modules = dict(model.named_modules())
    steps: list[Step] = []
    with on_step(steps.append):
        (best,) = writer.written([raw], beam=beam, n_best=n_best, length_penalty=length_penalty, max_length=max_length)
    written = [*best.ids, END] if best.finished else best.ids
    fed = [BEGIN, *written[:-1]]
    with capture(model) as seen:
        logits = model(source, mask, torch.tensor([fed], device=writer.device))
    sure = logits[0].float().softmax(-1).gather(1, torch.tensor(written, device=logits.device)[:, None])[:, 0]
    lengths = {READING: len(scene.tokens), WRITING: len(fed)}
    shown = CaptionLook(
        model=name,
        scene=scene,
        target=Side(best.text, tokenizer.pieces(written), *in_words(tokenizer, best.text, best.ids)),
        read=tokenizer.pieces(fed),
        probabilities=sure.tolist(),
        log_probability=best.log_probability,
        score=best.score,
        finished=best.finished,
        attention=told.attention(modules, seen),
        gates=told.gates(modules, seen, lengths),
        ponder=told.ponder(modules, seen),
        positions=told.positions(modules, max(told.POSITIONS, *lengths.values()), writer.device),
        beam=writer.recipe.decoding.beam if beam is None else beam,
        search=searched(steps, best.ids, best.finished, tokenizer),
        candidates=[
            Candidate(one.text, one.log_probability, one.score, one.finished) for one in (best, *best.alternatives)
        ],
    )
    shown.calculate = follower(model, lambda: model(source, mask, torch.tensor([fed], device=writer.device)))
    return shown


def opened(task: ExampleTask, given: Any) -> tuple[Any, str, list[str]]:
    """What was given as the task's input takes it, what it is called, and what had to be changed in it."""
    notes: list[str] = []
    if isinstance(given, bytes):
        called = {"image": "the picture", "sound": "the recording"}[task.pair.input.kind]
        return task.pair.input.decode(given, called, notes.append), called, notes  # type: ignore[attr-defined]
    if isinstance(given, str | Path):
        called = Path(given).name
        raw = task.pair.input.read(str(given), notes.append)
        # Where it lies is nobody's concern who is shown the picture.
        return raw, called, [note.replace(str(given), called) for note in notes]
    return task.pair.input.accept(given), "", notes


def _scene(task: ExampleTask, raw: Any, called: str, notes: list[str]) -> tuple[Scene, Tensor, Tensor]:
    """What is looked at, and what the model is given of it."""
    _, source, mask = next(iter(task.batches([raw])))
    stem = task.model.stem
    if isinstance(stem, Frames):
        scene = _heard(stem, source, mask, called)
    else:
        rows, columns = stem.grid
        names = [f"r{row} c{column}" for row in range(rows) for column in range(columns)]
        before = stem.prepended
        scene = Scene(called, task.pair.input.shaped(raw), rows, columns, names, before)  # type: ignore[attr-defined]
    if len(scene.places) > MOST_PLACES:
        raise UserError(f"{called}: has {len(scene.places)} places; {MOST_PLACES} are the most that can be looked at")
    scene.notes = notes
    return scene, source, mask


def _heard(stem: Frames, source: Tensor, mask: Tensor, called: str) -> Scene:
    """A spectrogram, low tones at the bottom, the louder the brighter; the last moment may reach beyond its end."""
    spectrogram, frames = stem.spectrogram(source, mask)
    power = spectrogram[0, : int(frames.sum())].cpu().numpy()
    _, places = stem(source, mask)
    count = int(places.sum())
    merged = math.prod(one.stride[0] for one in stem.convolutions)  # type: ignore[union-attr, index, misc]
    loudest = float(power.max())
    shades = ((power - loudest) / RANGE + 1).clip(0, 1) * 255
    whole = np.zeros((count * merged, shades.shape[1]), np.uint8)
    whole[: len(shades)] = shades.round()[: len(whole)]
    seconds = merged * stem.hop / stem.rate
    names = [f"{number * seconds:.2f} s" for number in range(count)]
    return Scene(called, whole.T[::-1, :, None].copy(), 1, count, names)
