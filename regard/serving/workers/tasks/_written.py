"""What is said of a text that a model wrote about a file: a caption, a transcript."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from regard.serving.workers.tasks._input import read_file
from regard.serving.workers.tasks._request import AskedOfFile, Beam, example


class WriteRequest(AskedOfFile):
    beam: Beam | None = Field(None, description="Texts kept while searching; 1 is greedy.")
    n_best: Beam = Field(1, description="Texts to tell, the best and its alternatives.")


class Token(BaseModel):
    token: str
    probability: float = Field(description="How sure the model was of it, given those before it.")


class Alternative(BaseModel):
    text: str
    log_probability: float


class Written(BaseModel):
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
    finished: bool = Field(description="False where the limit of length ended it.")
    tokens: list[Token]
    alternatives: list[Alternative]
    notes: list[str] = Field(description="What had to be changed in the file.")


def write(model: Any, asked: WriteRequest) -> dict[str, Any]:
    notes: list[str] = []
    (one,) = model.written([read_file(model, asked.file(), notes)], beam=asked.beam, n_best=asked.n_best)
    return {
        "text": one.text,
        "log_probability": one.log_probability,
        "finished": one.finished,
        "tokens": [{"token": t, "probability": p} for t, p in zip(one.tokens, one.token_probabilities)],
        "alternatives": [{"text": w.text, "log_probability": w.log_probability} for w in one.alternatives],
        "notes": notes,
    }
