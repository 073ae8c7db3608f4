"""Tagging: entities in texts, or regions of DNA, with their start and end."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, Field

from regard.serving.workers.tasks._input import check_cancelled, read_texts
from regard.serving.workers.tasks._request import TextTaskRequest, example

__all__ = ["Request", "Answer", "answer"]


class Request(TextTaskRequest):
    model_config = example({"text": "Yesterday, Harry Potter met Hermione Granger."})

    words: bool = Field(False, description="The text is already tokenized: words are separated by spaces.")


class Span(BaseModel):
    kind: str
    text: str
    start: int = Field(description="In characters, from 0.")
    stop: int
    probability: float = Field(description="Of its least probable word.")


class Tagging(BaseModel):
    text: str
    words: list[str]
    tags: list[str]
    probabilities: list[float]
    spans: list[Span]


class Answer(BaseModel):
    """Each text with its spans, in order."""

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
    parsed = Request(**request)
    texts = read_texts(model, parsed.texts())
    found = model.tag([text.split() for text in texts] if parsed.words else texts, check_cancelled)
    return {"answers": [asdict(one) for one in found]}
