"""Translations of a sentence that begin with given words and differ in the next one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, Field

from regard.serving.workers.tasks._request import Name, TaskRequest, example
from regard.serving.workers.tasks.translate import Code, Pair

__all__ = ["Request", "Answer", "answer"]


class Request(TaskRequest):
    """One sentence, and how its translation begins."""

    model_config = example({"text": "Où est la gare ?", "prefix": "Where is", "n_best": 2})

    model: Name | Pair = Field(  # type: ignore[assignment]
        "", description="A model's name, or the languages; required if there are several models."
    )
    source: Code | None = Field(None, description="The text's language, for a model with several directions.")
    target: Code | None = Field(None, description="The language to translate to, for a model with several directions.")
    text: str = Field(min_length=1, max_length=5000, description="One sentence.")
    prefix: str = Field("", max_length=5000, description="How the translation begins, in whole words.")
    n_best: int = Field(5, ge=1, le=32, description="Most translations to return.")

    def texts(self) -> list[str]:
        return [self.text, self.prefix]


class Continuation(BaseModel):
    text: str = Field(description="The whole translation.")
    next_word: str = Field(description="The word after the prefix; empty if the translation ends with it.")
    score: float = Field(description="Log-probability with length penalty, the ranking criterion.")
    log_probability: float


class Answer(BaseModel):
    """The translations, best first."""

    model_config = example(
        {
            "model": "fr-en",
            "answers": [
                {
                    "text": "Where is the station?",
                    "next_word": "the",
                    "score": -1.29,
                    "log_probability": -2.8,
                }
            ],
        }
    )

    model: str
    answers: list[Continuation]


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    text, prefix = request.pop("text"), request.pop("prefix")
    return {"answers": [asdict(one) for one in model.continuations(text, prefix, **request)]}
