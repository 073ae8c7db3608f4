"""A text as a language model reads it: how sure it was of each token, given those before, and of what else."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.serving.workers.tasks._request import TaskRequest
from regard.studio.questions._kept import MOST_CHARACTERS
from regard.studio.questions._sampled import check_writes

__all__ = ["Request", "answer"]

MOST = 400
"""Tokens that are told: the last ones of a longer text."""


class Request(TaskRequest):
    text: str = Field(max_length=MOST_CHARACTERS)


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    from regard.inspection.record.text import reading
    from regard.inspection.trace.base import plain

    check_writes(model)
    guesses, left_out = reading(model, Request(**request).text, MOST)
    return {"guesses": plain(guesses), "left_out": left_out}
