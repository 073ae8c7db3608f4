"""Classification: texts or a series as JSON, or a picture, sound or clip as the body."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, Field

from regard.errors import UserError
from regard.serving.workers.tasks._input import check_kind, read_file, read_rows, read_texts, still_wanted
from regard.serving.workers.tasks._request import PICTURES, SOUNDS, Asked, AskedOfFile, Rows, Texts, example

__all__ = ["Request", "FileRequest", "Answer", "answer"]

TOP = Field(1000, ge=1, le=1000, description="Labels to tell for each input, the likeliest first.")


class Request(Asked):
    """A text, or several; or a series, for a model that was trained on such."""

    model_config = example({"text": ["a wonderful film", "so boring"], "top": 3})

    text: Texts | None = None
    series: Rows | None = Field(None, description="A row for each step, with the columns that the model was shown.")
    top: int = TOP


class FileRequest(AskedOfFile):
    media: ClassVar[tuple[str, ...]] = (*PICTURES, *SOUNDS)

    top: int = TOP


class Classification(BaseModel):
    label: str
    probability: float
    probabilities: dict[str, float] = Field(description="Of the likeliest labels, the first first.")


class Answer(BaseModel):
    """What each input is, in order."""

    model_config = example(
        {
            "model": "reviews",
            "answers": [
                {"label": "positive", "probability": 0.9, "probabilities": {"positive": 0.9, "negative": 0.1}},
                {"label": "negative", "probability": 0.8, "probabilities": {"negative": 0.8, "positive": 0.2}},
            ],
            "notes": [],
        }
    )

    model: str
    answers: list[Classification]
    notes: list[str] = Field(description="What had to be changed in the input.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    notes: list[str] = []
    asked: Request | FileRequest
    if "content" in request:
        asked = FileRequest(**request)
        check_kind(model, "image", "sound", "clip")
        raws = [read_file(model, asked.file(), notes)]
    else:
        asked = Request(**request)
        if (asked.text is None) == (asked.series is None):
            raise UserError("give either a text or a series, or send a file as the body")
        check_kind(model, "text" if asked.series is None else "series")
        raws = read_texts(model, asked.texts()) if asked.series is None else [read_rows(asked.series)]
    answers = [
        {
            "label": one.label,
            "probability": one.probability,
            "probabilities": dict(list(one.probabilities.items())[: asked.top]),
        }
        for one in model.classify(raws, still_wanted)
    ]
    return {"answers": answers, "notes": notes}
