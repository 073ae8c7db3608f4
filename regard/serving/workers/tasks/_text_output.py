"""The answer of tasks that write a text about a file: captions and transcripts."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from regard.serving.workers.tasks._input import read_file
from regard.serving.workers.tasks._request import Beam, FileTaskRequest, example


class FileToTextRequest(FileTaskRequest):
    beam: Beam | None = Field(None, description="Beam width; 1 is greedy.")
    n_best: Beam = Field(1, description="Number of texts: the best and its alternatives.")


class Token(BaseModel):
    token: str
    probability: float = Field(description="Its probability given the tokens before it.")


class Alternative(BaseModel):
    text: str
    log_probability: float


class GeneratedText(BaseModel):
    model_config = example(
        {
            "model": "captions",
            "text": "a dog",
            "log_probability": -0.5,
            "finished": True,
            "tokens": [{"token": "a", "probability": 0.9}, {"token": "dog", "probability": 0.8}],
            "alternatives": [],
            "notes": [],
        }
    )

    model: str
    text: str
    log_probability: float
    finished: bool = Field(description="False if the length limit cut it off.")
    tokens: list[Token]
    alternatives: list[Alternative]
    notes: list[str] = Field(description="Conversions that were applied to the file.")


def write(model: Any, request: FileToTextRequest, **options: Any) -> tuple[Any, list[str]]:
    """What the model writes about the file, and notes on how it was read."""
    notes: list[str] = []
    raw = read_file(model, request.file(), notes)
    (one,) = model.written([raw], beam=request.beam, n_best=request.n_best, **options)
    return one, notes


def as_tree(one: Any, notes: list[str]) -> dict[str, Any]:
    return {
        "text": one.text,
        "log_probability": one.log_probability,
        "finished": one.finished,
        "tokens": [{"token": t, "probability": p} for t, p in zip(one.tokens, one.token_probabilities)],
        "alternatives": [{"text": w.text, "log_probability": w.log_probability} for w in one.alternatives],
        "notes": notes,
    }
