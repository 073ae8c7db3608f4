"""The traces of the last few texts, so that another view of the same text needs no new search.

Refuses texts that are too long before anything is computed.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from regard.errors import UserError
from regard.serving.workers.tasks._request import TaskRequest
from regard.serving.workers.tasks.translate import Code

if TYPE_CHECKING:
    from regard.inspection.trace.base import Trace

MOST_TOKENS = 128
"""A trace grows with the square of the number of tokens."""
MOST_CHARACTERS = 10_000
MOST_BEAM = 16
MOST_N_BEST = 8
OPTIONS = ("beam", "length_penalty", "n_best", "of", "source", "target")
"""The fields that `inspect` of a translator takes."""
CACHED = 16

_traces: OrderedDict[tuple[Any, ...], tuple[Trace, float]] = OrderedDict()


class DirectedRequest(TaskRequest):
    """A text, and the languages to translate it between, for a model with several."""

    text: Annotated[str, Field(max_length=MOST_CHARACTERS)]
    source: Code | None = Field(None, description="The language of the text; auto, or none: it is detected.")
    target: Code | None = None


class TextRequest(DirectedRequest):
    """The fields of every question about a text."""

    beam: int | None = Field(None, ge=1, le=MOST_BEAM, description="Beam width; 1 is greedy.")
    length_penalty: float | None = Field(None, ge=0, le=10, description="0 favours short output, 1 long output.")
    n_best: int | None = Field(None, ge=1, le=MOST_N_BEST, description="How many translations to find.")
    of: int | None = Field(None, ge=0, lt=MOST_N_BEST, description="Which of them to trace, from 0, the best.")


def cached_trace(model: Any, request: dict[str, Any]) -> Trace:
    """The trace of `request["text"]`; the request may also have the model's name and search options."""
    return timed_trace(model, request)[0]


def timed_trace(model: Any, request: dict[str, Any]) -> tuple[Trace, float]:
    """The trace, and the seconds that recording it took."""
    from regard.task.generate import Generator
    from regard.task.translate import Translator

    text, name = str(request["text"]), str(request.get("model", ""))
    if not isinstance(model, Generator):  # a language model continues after the last space
        text = text.strip()
    options = {}
    if isinstance(model, Translator):
        options = {key: request[key] for key in OPTIONS if request.get(key) is not None}
    key = (id(model), name, text, *options.items())
    if key not in _traces:
        check_text(model, text)
        began = time.perf_counter()
        trace = model.inspect(text, name=name, **options)
        _traces[key] = trace, time.perf_counter() - began
        while len(_traces) > CACHED:
            _traces.popitem(last=False)
    _traces.move_to_end(key)
    return _traces[key]


def check_text(model: Any, text: str) -> None:
    """Refuses an empty text, a text that is too long, and a model that does not read text."""
    from regard.inspection.inspect import Inspectable

    if not text.strip():
        raise UserError("there is nothing to show yet: type a sentence")
    if not isinstance(model, Inspectable):
        raise UserError("this view cannot show this model; choose another view, or another model")
    if (count := _count_tokens(model, text)) > MOST_TOKENS:
        raise UserError(f"this text has {count} tokens; the studio shows at most {MOST_TOKENS}: type a shorter one")


def _count_tokens(model: Any, text: str) -> int:
    from regard.task._examples import ExampleTask

    if not isinstance(model, ExampleTask):
        return len(model.encode(text))
    if model.pair.input.kind != "text":  # it would take the text for a file name
        raise UserError("this model does not read text; choose another view, or another model")
    return len(model.pair.input.encode(text))
