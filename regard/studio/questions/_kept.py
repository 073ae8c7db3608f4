"""A sentence as a model has seen it, kept for a while: another view of it costs nothing.

Knows the limit of what is looked at, and refuses more before anything is searched.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from regard.errors import UserError
from regard.serving.workers.tasks._request import TaskRequest

if TYPE_CHECKING:
    from regard.inspection.trace.base import Shown

LIMIT = 128
"""Tokens of a text. What is seen of it grows with their square."""
MOST_CHARACTERS = 10_000
MOST_BEAM = 16
MOST_FOUND = 8
SEARCHED = ("beam", "length_penalty", "n_best", "of")
KEPT = 16

_looks: OrderedDict[tuple[Any, ...], tuple[Shown, float]] = OrderedDict()


class AskedOfText(TaskRequest):
    """What every question about a sentence says."""

    text: Annotated[str, Field(max_length=MOST_CHARACTERS)]
    beam: int | None = Field(None, ge=1, le=MOST_BEAM, description="Hypotheses kept while searching; 1 is greedy.")
    length_penalty: float | None = Field(None, ge=0, le=10, description="0 favours short output, 1 long output.")
    n_best: int | None = Field(None, ge=1, le=MOST_FOUND, description="How many translations to find.")
    of: int | None = Field(None, ge=0, lt=MOST_FOUND, description="Which of them is looked at, from 0, the best.")


def look_of(model: Any, request: dict[str, Any]) -> Shown:
    """What the model did with `request["text"]`; `model`, its name, and how to search may be told too."""
    return timed_look_of(model, request)[0]


def timed_look_of(model: Any, request: dict[str, Any]) -> tuple[Shown, float]:
    """The same, and how many seconds it took when it was found."""
    text, name = str(request["text"]), str(request.get("model", ""))
    if not hasattr(model, "outlook"):  # to who goes on with a text, the last space is part of it
        text = text.strip()
    searched = {key: request[key] for key in SEARCHED if request.get(key) is not None and hasattr(model, "search")}
    key = (id(model), name, text, *searched.items())
    if key not in _looks:
        check_size(model, text)
        began = time.perf_counter()
        seen = model.inspect(text, name=name, **searched)
        _looks[key] = seen, time.perf_counter() - began
        while len(_looks) > KEPT:
            _looks.popitem(last=False)
    _looks.move_to_end(key)
    return _looks[key]


def check_size(model: Any, text: str) -> None:
    """Refuses an empty text, and one that is too long, before any search."""
    if not text.strip():
        raise UserError("there is nothing to look at yet: write a sentence")
    if not hasattr(model, "inspect"):
        raise UserError("this model cannot be looked at in this view; choose another view, or another model")
    pair = getattr(model, "pair", None)
    if pair is not None and pair.input.kind != "text":  # a text would be taken for the name of a file
        raise UserError("this model does not read text; choose another view, or another model")
    encode = model.encode if pair is None else pair.input.encode
    if (count := len(encode(text))) > LIMIT:
        raise UserError(
            f"this text has {count} tokens; {LIMIT} are the most that can be looked at: write a shorter one"
        )
