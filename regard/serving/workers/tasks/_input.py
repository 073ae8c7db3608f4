"""Decodes and checks the input of a request, in memory, in a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.decoding.cancellation import cancelled_sentences
from regard.errors import UserError
from regard.serving.workers.tasks._request import BODY

if TYPE_CHECKING:
    import numpy as np

EXPECTED_INPUT = {
    "text": "texts; send JSON with a text",
    "series": "series; send JSON with a series of rows",
    "image": "images; send a PNG, JPEG, GIF, BMP or WebP as the body",
    "sound": "recordings; send a WAV, FLAC or OGG as the body",
    "clip": "clips; send an animated GIF as the body",
}


def check_kind(model: Any, *sent: str) -> None:
    """Raises a UserError if the model takes another kind of input."""
    kind = model.pair.input.kind
    if kind not in sent:
        raise UserError(f"this model reads {EXPECTED_INPUT[kind]}")


def read_texts(model: Any, texts: list[str]) -> list[str]:
    return [model.pair.input.read(text) for text in texts]


def read_rows(rows: list[list[float]]) -> np.ndarray:
    import numpy as np

    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise UserError(f"series: row {number} has {len(row)} numbers, but the first has {len(rows[0])}")
    return np.array(rows, dtype=np.float32)


def read_file(model: Any, content: bytes, notes: list[str]) -> Any:
    """The image, sound or clip in a body; conversions are appended to `notes`."""
    return model.pair.input.decode(content, BODY, notes.append)


def check_cancelled(finished: int = 0) -> None:
    """Raises the worker's JobCancelled if the job was cancelled. Searches check by themselves."""
    cancelled_sentences()
