"""Captioning: a sentence that describes an image."""

from __future__ import annotations

from typing import Any, ClassVar

from regard.serving.workers.tasks._request import IMAGES
from regard.serving.workers.tasks._text_output import FileToTextRequest, GeneratedText, as_tree, write

__all__ = ["Request", "Answer", "answer"]

Answer = GeneratedText


class Request(FileToTextRequest):
    media: ClassVar[tuple[str, ...]] = IMAGES


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    return as_tree(*write(model, Request(**request)))
