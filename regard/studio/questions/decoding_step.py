"""One decoding step of a translation: the most likely next tokens, and the cross-attention of the step.

The prefix may be the model's own tokens or ones that a person chose; nothing is kept between steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from regard.studio.questions._trace_cache import DirectedRequest, check_text

if TYPE_CHECKING:
    from regard.task.translate import Translator

__all__ = ["Request", "answer"]

MOST_TOKENS = 512
Prefix = Annotated[list[Annotated[int, Field(ge=0, le=10_000_000)]], Field(max_length=MOST_TOKENS)]


class Request(DirectedRequest):
    written: Prefix = Field(default_factory=list, description="The ids of the target tokens so far.")
    step: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = Field(
        None, description="Which of their steps; by default the next."
    )


def answer(model: Translator, request: dict[str, Any]) -> dict[str, Any]:
    """`weights` are those of one step: of each layer and head, and their mean; null without attention."""
    from regard.inspection.record.decoding_step import after_tags, decoding_step
    from regard.inspection.record.translate import one_sentence, words_of
    from regard.inspection.trace.base import NO_WORD, Side, plain
    from regard.types import END

    question = Request.model_validate(request)
    check_text(model, question.text)
    (told,) = model.marks([question.text], question.source, question.target)
    text = one_sentence(model, question.text, told)
    found = decoding_step(model, text, question.written, question.step, told)
    source, output = model.encode(text, told), model.tokenizer.target
    span = model.text_span(source, told)
    words, word_of = words_of(model.tokenizer, text, source[span])
    side = Side(text, model.tokenizer.pieces(model.source_row(source)), words, [NO_WORD] * span.start + word_of)
    written = after_tags(question.written, told)
    ids = [one for one in written[len(told.prefix) :] if one != END]
    target = Side(output.decode(ids).strip(), [], [], [])
    mean = sum(layer.mean(0) for layer in found.weights) / len(found.weights) if found.weights else None
    return {
        "source": plain(side) | {"direction": side.direction},
        "written": output.pieces(written),
        "probabilities": plain(found.probabilities),
        "text": target.text,
        "direction": target.direction,
        "next": plain(found.alternatives),
        "weights": None if mean is None else {"mean": plain(mean), "layers": plain(found.weights)},
    }
