"""The training examples whose words are nearest to one word, from the index that `regard index` made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from regard.errors import UserError
from regard.studio.questions._trace_cache import TextRequest, cached_trace

if TYPE_CHECKING:
    from regard.task.translate import Translator

__all__ = ["Request", "answer"]


class Request(TextRequest):
    side: Literal["source", "target"] = Field("target", description="Whose word, the encoder's or the decoder's.")
    position: int = Field(0, ge=0, le=10_000, description="Which of its words, from 0.")


def answer(model: Translator, request: dict[str, Any]) -> dict[str, Any]:
    """`near` is null without an index. A position beyond the last word means the last."""
    from regard.inspection.trace.base import SOURCE, TARGET, plain
    from regard.inspection.trace.translation import TranslationTrace
    from regard.inspection.word_index import default_path

    question = Request.model_validate(request)
    trace = cached_trace(model, {name: value for name, value in request.items() if name in TextRequest.model_fields})
    if not isinstance(trace, TranslationTrace):
        raise UserError("this view looks up words of a translation; choose a translator")
    side = SOURCE if question.side == "source" else TARGET
    words = (trace.source if side == SOURCE else trace.target).words
    found: dict[str, Any] = {
        "source": plain(trace.source) | {"direction": trace.source.direction},
        "target": plain(trace.target) | {"direction": trace.target.direction},
        "near": None,
        "pictures": [],
    }
    if words and default_path(model.model).is_file():
        view = trace.view("near", attention=side, position=min(question.position, len(words) - 1))
        found |= {"near": plain(trace.near), "about": view.about}
        found["pictures"] = [{"heading": one.heading, "svg": one.svg()} for one in view.pictures]
    return found
