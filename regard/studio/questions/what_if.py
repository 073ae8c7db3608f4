"""A translation with parts of the model switched off, or taken from another sentence, beside the original."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from regard.errors import UserError
from regard.serving.workers.tasks._input import check_cancelled
from regard.studio.questions._trace_cache import MOST_CHARACTERS, TextRequest, cached_trace, check_text

if TYPE_CHECKING:
    from regard.task.translate import Translator

__all__ = ["Request", "answer"]

MOST_PARTS = 200
Parts = Annotated[list[Annotated[str, Field(max_length=60)]], Field(max_length=MOST_PARTS)]


class Request(TextRequest):
    without: Parts = Field(default_factory=list, description="Parts to switch off: encoder.0.self.head.3, decoder.1.")
    mean: bool = Field(False, description="Whether they are replaced by their mean instead of zeros.")
    patch: Parts = Field(default_factory=list, description="Parts taken from the other: encoder.1.output@2=4.")
    other: str = Field("", max_length=MOST_CHARACTERS, description="The other sentence.")


def answer(model: Translator, request: dict[str, Any]) -> dict[str, Any]:
    """`parts` are what can be switched off, `after` is null if nothing was."""
    from regard.inspection.record.parts import parts_of
    from regard.inspection.trace.base import Choice, plain
    from regard.inspection.trace.translation import TranslationTrace

    question = Request.model_validate(request)
    trace = cached_trace(model, {name: value for name, value in request.items() if name in TextRequest.model_fields})
    if not isinstance(trace, TranslationTrace):
        raise UserError("this view switches off parts of a translator; choose one")
    found: dict[str, Any] = {
        "parts": [asdict(one) for one in parts_of(model.model)],
        "before": _summary(trace),
        "after": None,
        "other": None,
        "pictures": [],
    }
    other = question.other.strip()
    if other:
        check_text(model, other)
        (told,) = model.marks([other], question.source, question.target)
        found["other"] = {"tokens": model.tokenizer.pieces(model.source_row(model.encode(other, told)))}
    if question.without or (question.patch and other):
        choice: dict[str, Any] = {"without": question.without, "mean": question.mean}
        if question.patch and other:
            choice |= {"patch": question.patch, "other": other}
        check_cancelled()  # the original was recorded, and stays cached
        what_if, view = trace.what_if_of(Choice(**choice)), trace.view("what-if", **choice)
        found["after"] = _summary(what_if.after) | {
            "summary": what_if.summary(),
            "original": {"probabilities": plain(what_if.probabilities), "log_probability": what_if.log_probability},
            "other_translation": what_if.other_translation,
        }
        found["about"] = view.about
        found["pictures"] = [{"heading": one.heading, "svg": one.svg()} for one in view.pictures]
    return found


def _summary(trace: Any) -> dict[str, Any]:
    from regard.inspection.trace.base import plain

    target = plain(trace.target) | {"direction": trace.target.direction}
    source = plain(trace.source) | {"direction": trace.source.direction}
    kept = ("probabilities", "log_probability", "score", "finished")
    return {"source": source, "target": target} | {name: plain(getattr(trace, name)) for name in kept}
