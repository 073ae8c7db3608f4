"""Score a text with a language model: the probability of each token given those before it, and the alternatives."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.serving.workers.tasks._request import TaskRequest
from regard.studio.questions._sampling import check_language_model
from regard.studio.questions._trace_cache import MOST_CHARACTERS

__all__ = ["Request", "answer"]

MOST_TOKENS = 400
"""Of a longer text, the last tokens are scored."""


class Request(TaskRequest):
    text: str = Field(max_length=MOST_CHARACTERS)


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    from regard.inspection.record.generate import score_text
    from regard.inspection.trace.base import plain

    check_language_model(model)
    guesses, left_out = score_text(model, Request(**request).text, MOST_TOKENS)
    return {"guesses": plain(guesses), "left_out": left_out}
