"""How a text goes on: so many tokens, drawn as `regard generate` draws them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.serving.workers.tasks._input import check_cancelled
from regard.studio.questions._sampled import AskedToGoOn, check_writes

__all__ = ["Request", "answer"]


class Request(AskedToGoOn):
    length: int = Field(1, ge=1, le=500, description="Most tokens written.")
    seed: int = Field(0, ge=0, lt=2**53, description="The same number writes the same text.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    from regard.types import END

    check_writes(model)
    asked = Request(**request)
    drawn = []
    for piece in model.stream(asked.text, length=asked.length, seed=asked.seed, **asked.how()):
        check_cancelled()
        drawn.append(piece)
    return {
        "text": "".join(piece.text for piece in drawn),
        "tokens": [piece.token for piece in drawn],
        "probabilities": [piece.probability for piece in drawn],
        "finished": bool(drawn) and drawn[-1].id == END,
    }
