"""The gradients of one output, as numbers and as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from regard.studio.questions._trace_cache import TextRequest, cached_trace

__all__ = ["Request", "answer"]


class Request(TextRequest):
    position: int | None = Field(None, ge=0, le=100_000, description="Which output, from 0; by default a content word.")


SCALES = ("shared", "own", "logarithmic")
"""Of the pictures of the view, in their order."""


def content_word(outputs: Sequence[str]) -> int | None:
    """The longest word among the outputs, the last of several: articles, pronouns and punctuation are short.

    None, which is the last output, where all are single characters.
    """
    lengths = [sum(letter.isalpha() for letter in token) if "<" not in token else 0 for token in outputs]
    longest = max(lengths, default=0)
    return None if longest < 2 else len(lengths) - 1 - lengths[::-1].index(longest)


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """`outputs` are those to choose from; there is a picture for each scale."""
    from regard.inspection.trace.base import plain

    question = Request(**request)
    trace = cached_trace(model, request)
    outputs = list(trace.outputs())
    # A shorter text has fewer outputs than the one that the position was chosen in: show the last.
    given = question.position
    position = content_word(outputs) if given is None else None if given >= len(outputs) else given
    found, view = trace.gradients_of(position), trace.view("gradients", position=position)
    return {
        **plain(found),
        "outputs": outputs,
        "about": view.about,
        "pictures": [
            {"scale": scale, "heading": one.heading, "svg": one.svg()} for scale, one in zip(SCALES, view.pictures)
        ],
        "gates": bool(trace.gates),
    }
