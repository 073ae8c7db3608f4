"""Translate a text, with the alignment: what the Translate tab shows while one types.

A text that is translated in several parts is answered with all parts, and the trace of one of them. Weights are those
of one layer and head, or the mean of all, which keeps the answer small; another head of the same text needs no search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pydantic import Field

from regard.studio.questions._trace_cache import MOST_CHARACTERS, TextRequest, timed_trace

if TYPE_CHECKING:
    from regard.inspection.trace.translation import TranslationTrace
    from regard.task.translate import Translator

__all__ = ["Request", "answer"]


class Request(TextRequest):
    part: int = Field(0, ge=0, le=MOST_CHARACTERS, description="Which part of the text to trace, from 0.")
    layer: int | None = Field(None, ge=0, le=1000, description="The attention of this layer, from 0; else of all.")
    head: int | None = Field(None, ge=0, le=1000, description="The attention of this head, from 0; else of all.")


def answer(model: Translator, request: dict[str, Any]) -> dict[str, Any]:
    question = Request(**request)
    (told,) = model.marks([question.text], question.source, question.target)
    parts = model.parts(question.text, told=told) or [""]  # an empty text gets the same message as in other views
    part = min(question.part, len(parts) - 1)
    trace, seconds = timed_trace(model, {**request, "text": parts[part]})
    return {
        "parts": parts,
        "part": part,
        "seconds": round(seconds, 4),
        **_summary(cast("TranslationTrace", trace), question.layer, question.head),
    }


def _summary(trace: TranslationTrace, layer: int | None, head: int | None) -> dict[str, Any]:
    """Both texts, the probability of each token and word, the n-best list, and the attention."""
    from regard.inspection.trace.base import CROSS, plain

    found = trace.tree(())
    found["attention"] = found["weights"] = None
    found["probabilities"] = {"tokens": found["probabilities"], "words": plain(trace.word_probabilities())}
    if cross := trace.of_kind(CROSS):
        layers, heads = len(cross), len(cross[0].weights)
        # They may have been chosen for a model that has more of them.
        layer, head = (
            one if one is not None and one < count else None for one, count in ((layer, layers), (head, heads))
        )
        found["attention"] = {"layers": layers, "heads": heads, "layer": layer, "head": head}
        found["weights"] = {
            "tokens": plain(trace.token_matrix(layer, head)),
            "words": plain(trace.word_matrix(layer, head)),
        }
    return found
