"""One step of a translation: what may come next, how likely each is, and where the model looks for it.

What is written so far may be the model's own words or what a person chose instead; nothing is remembered between steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from regard.serving.workers.tasks._request import TaskRequest
from regard.studio.questions._kept import MOST_CHARACTERS, check_size

if TYPE_CHECKING:
    from regard.task.translate import Translator

__all__ = ["Request", "answer"]

MOST = 512
Written = Annotated[list[Annotated[int, Field(ge=0, le=10_000_000)]], Field(max_length=MOST)]


class Request(TaskRequest):
    text: Annotated[str, Field(max_length=MOST_CHARACTERS)]
    written: Written = Field(default_factory=list, description="The tokens written so far, by their numbers.")
    step: Annotated[int, Field(ge=0, le=MOST)] | None = Field(None, description="Which step of these; else the next.")


def answer(model: Translator, request: dict[str, Any]) -> dict[str, Any]:
    """`weights` are of one step: of each layer and head, and their mean; null where there is no attention."""
    from regard.inspection.record.decoding_step import next_step
    from regard.inspection.record.translation import in_words, one_sentence
    from regard.inspection.trace.base import plain
    from regard.types import END

    asked = Request.model_validate(request)
    check_size(model, asked.text)
    text = one_sentence(model, asked.text)
    found = next_step(model, text, asked.written, asked.step)
    source = model.encode(text)
    words, word_of = in_words(model.tokenizer, text, source)
    mean = sum(layer.mean(0) for layer in found.weights) / len(found.weights) if found.weights else None
    return {
        "source": {"text": text, "tokens": model.tokenizer.pieces([*source, END]), "words": words, "word_of": word_of},
        "written": model.tokenizer.pieces(asked.written),
        "probabilities": plain(found.probabilities),
        "text": model.tokenizer.decode([one for one in asked.written if one != END]).strip(),
        "next": plain(found.nexts),
        "weights": None if mean is None else {"mean": plain(mean), "layers": plain(found.weights)},
    }
