"""Filling in: which words would fit into the blanks of a text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, Field

from regard.errors import UserError
from regard.serving.workers.tasks._input import read_texts, still_wanted
from regard.serving.workers.tasks._request import Asked, Texts, example

__all__ = ["Request", "Answer", "answer"]

MOST_BLANKS = 1000
"""In all texts of a request: for each the whole vocabulary is ranked."""


class Request(Asked):
    model_config = example({"text": "the _ of the house", "top": 3})

    text: Texts = Field(description="With _ where a word is wanted.")
    top: int = Field(5, ge=1, le=100, description="Words to tell for each blank, the likeliest first.")


class Candidate(BaseModel):
    word: str
    probability: float


class Filled(BaseModel):
    text: str = Field(description="With the likeliest word in each blank.")
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
    from regard.task.fill import BLANK

    asked = Request(**request)
    texts = read_texts(model, asked.texts())
    if (blanks := sum(len(BLANK.findall(text)) for text in texts)) > MOST_BLANKS:
        raise UserError(f"text: has {blanks:,} blanks; {MOST_BLANKS:,} are the most at once")
    answers: list[dict[str, Any]] = []
    for text in texts:
        answers += map(asdict, model.fill([text], asked.top))
        still_wanted()
    return {"answers": answers}
