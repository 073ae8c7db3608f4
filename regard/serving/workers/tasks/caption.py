"""Captioning: a sentence about a picture."""

from __future__ import annotations

from typing import Any, ClassVar

from regard.serving.workers.tasks._request import PICTURES
from regard.serving.workers.tasks._written import WriteRequest, Written, write

__all__ = ["Request", "Answer", "answer"]

Answer = Written


class Request(WriteRequest):
    media: ClassVar[tuple[str, ...]] = PICTURES


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    return write(model, Request(**request))
