"""One decoding step of a translation: the most likely next tokens, and the cross-attention of the step.

The prefix may be the model's own tokens or ones that a person chose; nothing is kept between steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from regard.serving.workers.tasks._request import TaskRequest
from regard.studio.questions._trace_cache import MOST_CHARACTERS, check_text

if TYPE_CHECKING:
    from regard.task.translate import Translator

__all__ = ["Request", "answer"]

MOST_TOKENS = 512
Prefix = Annotated[list[Annotated[int, Field(ge=0, le=10_000_000)]], Field(max_length=MOST_TOKENS)]


class Request(TaskRequest):
    text: Annotated[str, Field(max_length=MOST_CHARACTERS)]
    written: Prefix = Field(default_factory=list, description="The ids of the target tokens so far.")
    step: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = Field(
        None, description="Which of their steps; by default the next."
    )


def answer(model: Translator, request: dict[str, Any]) -> dict[str, Any]:
    """`weights` are those of one step: of each layer and head, and their mean; null without attention."""
    from regard.inspection.record.decoding_step import decoding_step
    from regard.inspection.record.translate import one_sentence, words_of
    from regard.inspection.trace.base import plain
    from regard.types import END

    question = Request.model_validate(request)
    check_text(model, question.text)
    text = one_sentence(model, question.text)
    found = decoding_step(model, text, question.written, question.step)
    source = model.encode(text)
    words, word_of = words_of(model.tokenizer, text, source)
    mean = sum(layer.mean(0) for layer in found.weights) / len(found.weights) if found.weights else None
    return {
        "source": {"text": text, "tokens": model.tokenizer.pieces([*source, END]), "words": words, "word_of": word_of},
        "written": model.tokenizer.pieces(question.written),
        "probabilities": plain(found.probabilities),
        "text": model.tokenizer.decode([one for one in question.written if one != END]).strip(),
        "next": plain(found.alternatives),
        "weights": None if mean is None else {"mean": plain(mean), "layers": plain(found.weights)},
    }
