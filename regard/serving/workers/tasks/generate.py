"""Generation: how a text, or a piece of music, goes on; at once, or token by token as it is written."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, Field

from regard.serving.workers.tasks._input import still_wanted
from regard.serving.workers.tasks._request import Asked, Text, example

__all__ = ["Request", "Answer", "answer", "parts"]


class Request(Asked):
    """With `stream`, the answer is a stream of server-sent events: one for each token (`text`, which it adds, `token`
    and `probability`), and last one named `done` with the whole answer."""

    model_config = example({"prompt": "Once upon a time", "length": 50, "temperature": 0.8, "seed": 1})

    prompt: Text = Field("", description="How it begins.")
    length: int | None = Field(None, ge=1, le=10_000, description="Most tokens written; else what the recipe says.")
    temperature: float = Field(1.0, ge=0.01, le=100, description="Below 1 safer, above 1 bolder.")
    top_k: int = Field(0, ge=0, le=1_000_000, description="Draw from the k likeliest tokens only; 0 means all.")
    top_p: float = Field(1.0, gt=0, le=1, description="Draw from the fewest tokens that together are so likely.")
    seed: int | None = Field(None, ge=0, lt=2**53, description="The same number writes the same text.")
    stream: bool = Field(False, description="Send each token as it is written.")

    def texts(self) -> list[str]:
        return [self.prompt]


class Answer(BaseModel):
    model_config = example(
        {
            "model": "tales",
            "prompt": "Once upon a",
            "text": " time",
            "seed": 1,
            "log_probability": -0.1,
            "finished": False,
            "tokens": ["▁time"],
            "probabilities": [0.9],
        }
    )

    model: str
    prompt: str = Field(description="The beginning as the model has read it.")
    text: str = Field(description="What it wrote after that.")
    seed: int
    log_probability: float
    finished: bool = Field(description="Whether it came to an end by itself.")
    tokens: list[str]
    probabilities: list[float] = Field(description="How sure the model was of each token, given those before it.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    *_, last = parts(model, request)
    return last["done"]


def parts(model: Any, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each token as soon as it is drawn; last, under `done`, all of it together."""
    from regard.types import END

    asked = Request(**request)
    # Chosen here where it is not told, so that whoever likes the text can have it again.
    seed = secrets.randbelow(2**31) if asked.seed is None else asked.seed
    options = {"length": asked.length, "temperature": asked.temperature, "top_k": asked.top_k, "top_p": asked.top_p}
    drawn = []
    for piece in model.stream(asked.prompt, seed=seed, **options):
        still_wanted()
        drawn.append(piece)
        yield {"text": piece.text, "token": piece.token, "probability": piece.probability}
    yield {
        "done": {
            "prompt": model.shown(asked.prompt),
            "text": "".join(piece.text for piece in drawn),
            "seed": seed,
            "log_probability": sum(math.log(max(piece.probability, 1e-300)) for piece in drawn),
            "finished": bool(drawn) and drawn[-1].id == END,
            "tokens": [piece.token for piece in drawn],
            "probabilities": [piece.probability for piece in drawn],
        }
    }
