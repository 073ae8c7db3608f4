"""Transcription: the words of a recording."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, Field

from regard.serving.workers.tasks._request import SOUNDS, example, example_of
from regard.serving.workers.tasks._text_output import FileToTextRequest, GeneratedText, as_tree, write
from regard.serving.workers.tasks.translate import Code

__all__ = ["Request", "Answer", "answer"]


class Request(FileToTextRequest):
    media: ClassVar[tuple[str, ...]] = SOUNDS

    source: Code | None = Field(None, description="The language that is spoken; auto, or none: it is detected.")
    target: Code | None = Field(None, description="The language to write, if it is another one: en.")
    timestamps: bool = Field(False, description="Whether to answer with segments and their times.")


class Segment(BaseModel):
    start: float = Field(description="Seconds.")
    end: float
    text: str


class Answer(GeneratedText):
    model_config = example(
        {
            **example_of(GeneratedText),
            "model": "speech",
            "text": "three one",
            "language": "en",
            "segments": [{"start": 0.0, "end": 1.4, "text": "three one"}],
        }
    )

    language: str = Field(description="The language that is spoken; empty where the model does not say.")
    segments: list[Segment] = Field(description="With timestamps, and of recordings longer than the model's window.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    asked = Request(**request)
    spoken = {"source": asked.source, "target": asked.target, "timestamps": asked.timestamps}
    one, notes = write(model, asked, **spoken)
    segments = [{"start": part.start, "end": part.end, "text": part.text} for part in one.segments]
    return {**as_tree(one, notes), "language": one.language, "segments": segments}
