"""The gradients of one output, as numbers and as pictures."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.studio.questions._trace_cache import TextRequest, cached_trace

__all__ = ["Request", "answer"]


class Request(TextRequest):
    position: int | None = Field(None, ge=0, le=100_000, description="Which output, from 0; by default the last.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """`outputs` are those to choose from; the first picture has a linear scale, the second a log scale."""
    from regard.inspection.trace.base import plain

    question = Request(**request)
    trace = cached_trace(model, request)
    outputs = list(trace.outputs())
    # A shorter text has fewer outputs than the one that the position was chosen in: show the last.
    position = None if question.position is None or question.position >= len(outputs) else question.position
    found, view = trace.gradients_of(position), trace.view("gradients", position=position)
    return {
        **plain(found),
        "outputs": outputs,
        "about": view.about,
        "pictures": [{"heading": one.heading, "svg": one.svg()} for one in view.pictures],
        "gates": bool(trace.gates),
    }
