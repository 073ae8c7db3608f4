"""What questions about the continuation of a text share: the text, and how to sample."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from regard.errors import UserError
from regard.serving.workers.tasks._request import TaskRequest
from regard.studio.questions._trace_cache import MOST_CHARACTERS


class SamplingRequest(TaskRequest):
    """The text is used as it is, with its trailing space."""

    text: Annotated[str, Field(max_length=MOST_CHARACTERS)]
    temperature: float = Field(1.0, ge=0.01, le=100, description="Below 1 more likely tokens, above 1 more varied.")
    top_k: int = Field(0, ge=0, le=1_000_000, description="Sample from the k most likely tokens only; 0 means all.")
    top_p: float = Field(
        1.0, gt=0, le=1, description="Sample from the fewest tokens that together have this probability."
    )

    def sampling(self) -> dict[str, Any]:
        return {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}


def check_language_model(model: Any) -> None:
    from regard.task.generate import Generator

    if not isinstance(model, Generator):
        raise UserError("this model does not continue a text; choose a language model")
