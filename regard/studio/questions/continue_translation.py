"""Translate with a forced prefix: the model searches the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from regard.studio.questions._trace_cache import TextRequest, check_text
from regard.studio.questions.decoding_step import Prefix

if TYPE_CHECKING:
    from regard.task.translate import Translator

__all__ = ["Request", "answer"]


class Request(TextRequest):
    written: Prefix = Field(default_factory=list, description="The ids of the forced prefix.")


def answer(model: Translator, request: dict[str, Any]) -> dict[str, Any]:
    """The whole translation, prefix included, and the probability of each token; `end` is the id of END, and `tags` the
    number of tokens at the beginning that say the language."""
    from regard.types import END

    question = Request.model_validate(request)
    check_text(model, question.text)
    trace = model.inspect(
        question.text.strip(),
        name=question.model,
        prefix=question.written,
        beam=question.beam,
        length_penalty=question.length_penalty,
        source=question.source,
        target=question.target,
    )
    (told,) = model.marks([question.text], question.source, question.target)
    found = trace.tree(("ids",))
    kept = ("source", "target", "probabilities", "ids", "given", "finished", "beam")
    return {"end": END, "tags": len(told.prefix)} | {name: found[name] for name in kept}
