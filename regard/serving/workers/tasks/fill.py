"""Filling in: candidate words for the blanks of a text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, Field

from regard.errors import UserError
from regard.serving.workers.tasks._input import check_cancelled, read_texts
from regard.serving.workers.tasks._request import Texts, TextTaskRequest, example

__all__ = ["Request", "Answer", "answer"]

MAX_BLANKS = 1000
"""Per request: each blank ranks the whole vocabulary."""


class Request(TextTaskRequest):
    model_config = example({"text": "the _ of the house", "top": 3})

    text: Texts = Field(description="Each _ is a blank, or the mask token of an imported model.")
    top: int = Field(5, ge=1, le=100, description="Number of words for each blank, most probable first.")


class Candidate(BaseModel):
    word: str
    probability: float


class Filled(BaseModel):
    text: str = Field(description="The text with the most probable word in each blank.")
    blanks: list[list[Candidate]]


class Answer(BaseModel):
    """Each text with its blanks filled, in order."""

    model_config = example(
        {
            "model": "english",
            "answers": [{"text": "the end of the house", "blanks": [[{"word": "end", "probability": 0.2}]]}],
        }
    )

    model: str
    answers: list[Filled]


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    parsed = Request(**request)
    texts = read_texts(model, parsed.texts())
    if (blanks := sum(len(model.blanks(text)) for text in texts)) > MAX_BLANKS:
        raise UserError(f"text: {blanks:,} blanks exceed the limit of {MAX_BLANKS:,} per request")
    answers: list[dict[str, Any]] = []
    for text in texts:
        answers += map(asdict, model.fill([text], parsed.top))
        check_cancelled()
    return {"answers": answers}
