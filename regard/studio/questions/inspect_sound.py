"""Transcribe a recording, with the attention of each word over its spectrogram.

Without a recording the answer says what the model hears. With a `view` the answer is its pictures; without one it is
numbers: the cross-attention, which the page draws over the spectrogram itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from pydantic import Field

from regard.errors import UserError
from regard.serving.workers.tasks._request import TaskRequest
from regard.serving.workers.tasks.translate import Code
from regard.studio.questions.inspect_image import MOST_CHARACTERS, numbers_of, pictures_of

if TYPE_CHECKING:
    from regard.inspection.trace.image import CaptionTrace

__all__ = ["Request", "answer"]

CACHED = 4

_traces: OrderedDict[tuple[Any, ...], Any] = OrderedDict()


class Request(TaskRequest):
    recording: str | None = Field(None, max_length=MOST_CHARACTERS, description="A WAV, FLAC or OGG file, in base64.")
    spoken: Code | None = Field(None, description="The language that is spoken; none: it is detected.")
    written: Code | None = Field(None, description="The language to write, if it is another one.")
    view: str = Field("", max_length=30, description="The view to draw; without it the answer is numbers.")
    only: int | None = Field(None, ge=0, le=100, description="Draw only this picture of the view.")
    layer: int | None = Field(None, ge=0, le=1000)
    head: int | None = Field(None, ge=0, le=1000)
    position: int | None = Field(None, ge=0, le=10_000, description="The index of the token written.")
    tokens: bool = False
    beam: int | None = Field(None, ge=1, le=16)


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    from regard.task.transcribe import Transcriber

    question = Request(**request)
    if not isinstance(model, Transcriber):
        raise UserError("this model does not read sound; choose another model")
    if question.recording is None:
        return _about(model)
    trace = trace_of(model, question)
    return pictures_of(trace, question) if question.view else numbers_of(trace, question)


def _about(model: Any) -> dict[str, Any]:
    """What the page offers: the languages, and how long a recording may be."""
    from regard.languages import name

    rate, longest = model.pair.input.sizes()["rate"], model.model.stem.longest
    spoken = sorted(model.recipe.languages.source, key=name)
    return {
        "spoken": [[code, name(code)] for code in spoken],
        "written": [[code, name(code)] for code in model.recipe.languages.target],
        "seconds": longest / rate if longest else None,
    }


def trace_of(model: Any, question: Request) -> CaptionTrace:
    """The trace of the recording, computed once."""
    try:
        content = base64.b64decode(question.recording or "", validate=True)
    except binascii.Error:
        raise UserError("recording: is not valid base64; encode the bytes of a sound file") from None
    options: dict[str, Any] = {"source": question.spoken, "target": question.written}
    options |= {} if question.beam is None else {"beam": question.beam}
    key = (id(model), question.model, hashlib.sha256(content).digest(), *options.items())
    if key not in _traces:
        _traces[key] = model.inspect(content, name=question.model, **options)
        while len(_traces) > CACHED:
            _traces.popitem(last=False)
    _traces.move_to_end(key)
    return _traces[key]
