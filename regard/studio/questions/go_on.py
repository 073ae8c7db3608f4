"""A translation that begins as a person wants, and is then left to the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from regard.studio.questions._kept import AskedOfText, check_size
from regard.studio.questions.steps import Written

if TYPE_CHECKING:
    from regard.task.translate import Translator

__all__ = ["Request", "answer"]


class Request(AskedOfText):
    written: Written = Field(default_factory=list, description="How it begins: tokens by their numbers.")


def answer(model: Translator, request: dict[str, Any]) -> dict[str, Any]:
    """The whole of it, what was given included, and how sure the model is of each token; `end` is the token that ends
    a text."""
    from regard.types import END

    asked = Request.model_validate(request)
    check_size(model, asked.text)
    how = {"beam": asked.beam, "length_penalty": asked.length_penalty}
    seen = model.inspect(asked.text.strip(), name=asked.model, prefix=asked.written, **how)  # type: ignore[arg-type]
    found = seen.tree(("ids",))
    kept = ("source", "target", "probabilities", "ids", "given", "finished", "beam")
    return {"end": END} | {name: found[name] for name in kept}
