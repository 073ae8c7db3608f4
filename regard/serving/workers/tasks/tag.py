"""Tagging: names in texts, or places in DNA, and where each begins and ends."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, Field

from regard.serving.workers.tasks._input import read_texts, still_wanted
from regard.serving.workers.tasks._request import Asked, Texts, example

__all__ = ["Request", "Answer", "answer"]


class Request(Asked):
    model_config = example({"text": "Yesterday, Harry Potter met Hermione Granger."})

    text: Texts
    words: bool = Field(False, description="The text is cut already: spaces separate its words.")


class Span(BaseModel):
    kind: str
    text: str
    start: int = Field(description="Counted in characters of the text, from 0.")
    stop: int
    probability: float = Field(description="Of that of its words which is least sure.")


class Tagging(BaseModel):
    text: str
    words: list[str]
    tags: list[str]
    probabilities: list[float]
    spans: list[Span]


class Answer(BaseModel):
    """Each text with what was found in it, in order."""

    model_config = example(
        {
            "model": "names",
            "answers": [
                {
                    "text": "Harry slept.",
                    "words": ["Harry", "slept", "."],
                    "tags": ["B-person", "O", "O"],
                    "probabilities": [0.99, 0.98, 0.99],
                    "spans": [{"kind": "person", "text": "Harry", "start": 0, "stop": 5, "probability": 0.99}],
                }
            ],
        }
    )

    model: str
    answers: list[Tagging]


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    asked = Request(**request)
    texts = read_texts(model, asked.texts())
    found = model.tag([text.split() for text in texts] if asked.words else texts, still_wanted)
    return {"answers": [asdict(one) for one in found]}
