"""Classification: texts or a time series as JSON, or an image, sound or clip as the body."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, Field

from regard.errors import UserError
from regard.serving.workers.tasks._input import check_cancelled, check_kind, read_file, read_rows, read_texts
from regard.serving.workers.tasks._request import IMAGES, SOUNDS, FileTaskRequest, Rows, TaskRequest, Texts, example

__all__ = ["Request", "FileRequest", "Answer", "answer"]

TOP = Field(1000, ge=1, le=1000, description="Number of labels for each input, most probable first.")


class Request(TaskRequest):
    """A text or several, or a time series if the model was trained on series."""

    model_config = example({"text": ["a wonderful film", "so boring"], "top": 3})

    text: Texts | None = None
    series: Rows | None = Field(None, description="One row per step, with the columns that the model was trained on.")
    top: int = TOP

    def texts(self) -> list[str]:
        return [] if self.text is None else [self.text] if isinstance(self.text, str) else self.text


class FileRequest(FileTaskRequest):
    media: ClassVar[tuple[str, ...]] = (*IMAGES, *SOUNDS)

    top: int = TOP


class Classification(BaseModel):
    label: str
    probability: float
    probabilities: dict[str, float] = Field(description="The most probable labels, best first.")


class Answer(BaseModel):
    """The label of each input, in order."""

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
    notes: list[str] = Field(description="Conversions that were applied to the input.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    notes: list[str] = []
    parsed: Request | FileRequest
    if "content" in request:
        parsed = FileRequest(**request)
        check_kind(model, "image", "sound", "clip")
        inputs = [read_file(model, parsed.file(), notes)]
    else:
        parsed = Request(**request)
        if (parsed.text is None) == (parsed.series is None):
            raise UserError("give either a text or a series, or send a file as the body")
        check_kind(model, "text" if parsed.series is None else "series")
        inputs = read_texts(model, parsed.texts()) if parsed.series is None else [read_rows(parsed.series)]
    answers = [
        {
            "label": one.label,
            "probability": one.probability,
            "probabilities": dict(list(one.probabilities.items())[: parsed.top]),
        }
        for one in model.classify(inputs, check_cancelled)
    ]
    return {"answers": answers, "notes": notes}
