"""What was sent becomes what a model takes: checked and decoded in memory, in a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.decoding.abandoning import abandoned
from regard.errors import UserError
from regard.serving.workers.tasks._request import BODY

if TYPE_CHECKING:
    import numpy as np

READS = {
    "text": "texts; send JSON with a text",
    "series": "series; send JSON with a series of rows",
    "image": "pictures; send a PNG, JPEG, GIF, BMP or WebP as the body",
    "sound": "recordings; send a WAV, FLAC or OGG as the body",
    "clip": "clips; send an animated GIF as the body",
}


def check_kind(model: Any, *sent: str) -> None:
    """Refuses what the model cannot read."""
    kind = model.pair.input.kind
    if kind not in sent:
        raise UserError(f"this model reads {READS[kind]}")


def read_texts(model: Any, texts: list[str]) -> list[str]:
    return [model.pair.input.read(text) for text in texts]


def read_rows(rows: list[list[float]]) -> np.ndarray:
    import numpy as np

    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise UserError(f"series: row {number} has {len(row)} numbers, but the first has {len(rows[0])}")
    return np.array(rows, dtype=np.float32)


def read_file(model: Any, content: bytes, notes: list[str]) -> Any:
    """The picture, sound or clip in a body; `notes` hears what had to be changed in it."""
    return model.pair.input.decode(content, BODY, notes.append)


def still_wanted(finished: int = 0) -> None:
    """Ends the job, by an exception of the worker's, when nobody waits for it any more. Searches ask by themselves."""
    abandoned()
