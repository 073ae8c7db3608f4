"""The next-token distribution of a language model, in every stage from the logits to the sampling probabilities."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.studio.questions._sampling import SamplingRequest, check_language_model

__all__ = ["Request", "answer"]


class Request(SamplingRequest):
    count: int = Field(40, ge=1, le=200, description="How many tokens to list, the most likely first.")
    picture: bool = Field(False, description="Whether to draw it too, as `regard inspect` does.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    from regard.inspection.draw.next_token import draw_next_token
    from regard.inspection.draw.views.text import end_of
    from regard.inspection.record.next_token import distribution_of
    from regard.inspection.trace.base import plain
    from regard.types import UNKNOWN

    check_language_model(model)
    question = Request(**request)
    ids = model.encode(question.text)
    logits, log_probs = model.outlook(ids)
    found = distribution_of(model.tokenizer, logits, log_probs, **question.sampling(), count=question.count)
    drawing = {"svg": draw_next_token(found, end_of(question.text)).svg()} if question.picture else {}
    return {
        **plain(found),
        **drawing,
        "vocabulary": len(model.tokenizer),
        "read": len(ids),
        "unknown": ids.count(UNKNOWN),
    }
