"""Continue a text with a language model, sampling as `regard generate` does."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.serving.workers.tasks._input import check_cancelled
from regard.studio.questions._sampling import SamplingRequest, check_language_model

__all__ = ["Request", "answer"]


class Request(SamplingRequest):
    length: int = Field(1, ge=1, le=500, description="The most tokens to generate.")
    seed: int = Field(0, ge=0, lt=2**53, description="The same seed generates the same text.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    from regard.types import END

    check_language_model(model)
    question = Request(**request)
    pieces = []
    for piece in model.stream(question.text, length=question.length, seed=question.seed, **question.sampling()):
        check_cancelled()
        pieces.append(piece)
    return {
        "text": "".join(piece.text for piece in pieces),
        "tokens": [piece.token for piece in pieces],
        "probabilities": [piece.probability for piece in pieces],
        "finished": bool(pieces) and pieces[-1].id == END,
    }
