"""Fill the blanks of a text with a masked language model: the most probable tokens of each blank.

With `blank` the answer is the attention of that blank instead: what it attended to in a layer and a head.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.errors import UserError
from regard.serving.workers.tasks._request import TaskRequest
from regard.studio.questions._trace_cache import MOST_CHARACTERS, cached_trace

__all__ = ["Request", "answer"]

MOST_TOKENS = 512
MOST_BLANKS = 16
"""Each blank ranks the whole vocabulary."""


class Request(TaskRequest):
    text: str = Field(max_length=MOST_CHARACTERS)
    count: int = Field(10, ge=1, le=50, description="How many tokens to list for each blank, most probable first.")
    blank: int | None = Field(None, ge=0, lt=MOST_BLANKS, description="The blank whose attention is wanted, from 0.")
    layer: int | None = Field(None, ge=0, le=1000, description="Without it, the mean of all layers.")
    head: int | None = Field(None, ge=0, le=1000, description="Without it, the mean of all heads.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    from regard.task.fill import Filler

    question = Request(**request)
    if not isinstance(model, Filler):
        raise UserError("this model does not fill blanks; choose a masked language model")
    blanks = model.blanks(question.text)
    if len(blanks) > MOST_BLANKS:
        raise UserError(f"this text has {len(blanks)} blanks; the studio fills at most {MOST_BLANKS}")
    if question.blank is not None:
        return _attention(model, question, request)
    return _candidates(model, question)


def _candidates(model: Any, question: Request) -> dict[str, Any]:
    """`between` is the text around the blanks, one part more than there are blanks: offsets would count characters
    differently in Python and in JavaScript."""
    from regard.inspection.trace.base import plain

    text = question.text
    blanks = model.blanks(text)
    starts, ends = [*(one.start() for one in blanks), len(text)], [0, *(one.end() for one in blanks)]
    told = {"between": [text[end:start] for end, start in zip(ends, starts)], "written": [one[0] for one in blanks]}
    if not blanks:
        return {**told, "text": text, "blanks": []}
    if (count := len(model.hidden(text)[0])) > MOST_TOKENS:
        raise UserError(f"this text has {count} tokens; the studio fills texts of at most {MOST_TOKENS}")
    return {**told, **plain(model.fill(text, question.count))}


def _attention(model: Any, question: Request, request: dict[str, Any]) -> dict[str, Any]:
    """The attention weights of a blank over all tokens; they sum to 1."""
    import numpy as np

    from regard.inspection.trace.base import SOURCE, plain

    places = model.hidden(question.text.strip())[1]
    trace = cached_trace(model, request)
    layers = [one.weights for one in trace.of_kind(SOURCE)]
    if not layers:
        raise UserError("this model has no attention to show")
    counts = {"blank": len(places), "layer": len(layers), "head": len(layers[0])}
    for name, count in counts.items():
        if (getattr(question, name) or 0) >= count:
            raise UserError(f"{name}: is {getattr(question, name)}, but there are {count}, counted from 0")
    assert question.blank is not None
    chosen = layers if question.layer is None else [layers[question.layer]]
    rows = np.stack([weights[:, places[question.blank]] for weights in chosen])
    weights = (rows if question.head is None else rows[:, question.head]).reshape(-1, rows.shape[-1]).mean(0)
    return {
        "tokens": list(trace.tokens(SOURCE)),
        "direction": trace.texts()[0].direction,
        "position": places[question.blank],
        "weights": plain(weights),
        "layers": counts["layer"],
        "heads": counts["head"],
    }
