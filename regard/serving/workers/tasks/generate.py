"""Generation: continues a text or a piece of music, at once or token by token."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, Field

from regard.serving.workers.tasks._input import check_cancelled
from regard.serving.workers.tasks._request import TaskRequest, Text, example

__all__ = ["Request", "Answer", "answer", "parts"]


class Request(TaskRequest):
    """With `stream`, the answer is a stream of server-sent events: one per token (`text`, the characters it adds,
    `token` and `probability`), and finally one named `done` with the whole answer."""

    model_config = example({"prompt": "Once upon a time", "length": 50, "temperature": 0.8, "seed": 1})

    prompt: Text = Field("", description="The beginning.")
    length: int | None = Field(None, ge=1, le=10_000, description="Maximum number of new tokens; default: see recipe.")
    temperature: float = Field(1.0, ge=0.01, le=100, description="Below 1 more conservative, above 1 more varied.")
    top_k: int = Field(0, ge=0, le=1_000_000, description="Sample from the k most probable tokens; 0 means all.")
    top_p: float = Field(1.0, gt=0, le=1, description="Sample from the fewest tokens with this total probability.")
    seed: int | None = Field(None, ge=0, lt=2**53, description="The same seed gives the same text.")
    stream: bool = Field(False, description="Send each token as it is generated.")

    def texts(self) -> list[str]:
        return [self.prompt]

    def streamed(self) -> bool:
        return self.stream


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
    prompt: str = Field(description="The beginning, as tokenized.")
    text: str = Field(description="The continuation.")
    seed: int
    log_probability: float
    finished: bool = Field(description="Whether the model ended the text itself.")
    tokens: list[str]
    probabilities: list[float] = Field(description="Of each token, given the ones before it.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    *_, last = parts(model, request)
    return last["done"]


def parts(model: Any, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields each token as it is sampled and finally, under `done`, the whole answer."""
    from regard.types import END

    parsed = Request(**request)
    # A random seed is sampled here and returned, so that the text can be reproduced.
    seed = secrets.randbelow(2**31) if parsed.seed is None else parsed.seed
    options = {"length": parsed.length, "temperature": parsed.temperature, "top_k": parsed.top_k, "top_p": parsed.top_p}
    sampled = []
    for piece in model.stream(parsed.prompt, seed=seed, **options):
        check_cancelled()
        sampled.append(piece)
        yield {"text": piece.text, "token": piece.token, "probability": piece.probability}
    yield {
        "done": {
            "prompt": model.shown(parsed.prompt),
            "text": "".join(piece.text for piece in sampled),
            "seed": seed,
            "log_probability": sum(math.log(max(piece.probability, 1e-300)) for piece in sampled),
            "finished": bool(sampled) and sampled[-1].id == END,
            "tokens": [piece.token for piece in sampled],
            "probabilities": [piece.probability for piece in sampled],
        }
    }
