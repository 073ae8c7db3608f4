"""Transcription: the words in a recording."""

from __future__ import annotations

from typing import Any, ClassVar

from regard.serving.workers.tasks._request import SOUNDS
from regard.serving.workers.tasks._written import WriteRequest, Written, write

__all__ = ["Request", "Answer", "answer"]

Answer = Written


class Request(WriteRequest):
    media: ClassVar[tuple[str, ...]] = SOUNDS


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    return write(model, Request(**request))
