"""Tracking: the position of an object in every frame of a clip."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, Field

from regard.serving.workers.tasks._input import read_file
from regard.serving.workers.tasks._request import CLIPS, FileTaskRequest, example

__all__ = ["Request", "Answer", "answer"]


class Request(FileTaskRequest):
    media: ClassVar[tuple[str, ...]] = CLIPS


class Answer(BaseModel):
    """One entry for each frame."""

    model_config = example({"model": "discs", "places": [[0.5, 0.25]], "spreads": [0.03], "notes": []})

    model: str
    places: list[tuple[float, float]] = Field(description="x and y, from 0 (left, top) to 1.")
    spreads: list[float] = Field(description="Expected error of each position.")
    notes: list[str] = Field(description="Conversions that were applied to the clip.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    notes: list[str] = []
    (one,) = model.track([read_file(model, Request(**request).file(), notes)])
    return {"places": one.places, "spreads": one.spreads, "notes": notes}
