"""What every question says that is about how a language model goes on: the text, and how to draw."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from regard.errors import UserError
from regard.serving.workers.tasks._request import TaskRequest
from regard.studio.questions._kept import MOST_CHARACTERS


class AskedToGoOn(TaskRequest):
    """A text as it stands, its last space included."""

    text: Annotated[str, Field(max_length=MOST_CHARACTERS)]
    temperature: float = Field(1.0, ge=0.01, le=100, description="Below 1 safer, above 1 bolder.")
    top_k: int = Field(0, ge=0, le=1_000_000, description="Draw from the k likeliest tokens only; 0 means all.")
    top_p: float = Field(1.0, gt=0, le=1, description="Draw from the fewest tokens that together are so likely.")

    def how(self) -> dict[str, Any]:
        return {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}


def check_writes(model: Any) -> None:
    if not hasattr(model, "outlook"):
        raise UserError("this model does not go on with a text; choose a language model")
