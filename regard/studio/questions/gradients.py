"""How much one output changes with what the model had at each step, as numbers and as pictures."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.studio.questions._kept import AskedOfText, look_of

__all__ = ["Request", "answer"]


class Request(AskedOfText):
    position: int | None = Field(None, ge=0, le=100_000, description="Which output, from 0; without it the last.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """`outputs` are all that may be asked for; the first picture's scale is even, the second's in powers of ten."""
    from regard.inspection.trace.base import plain

    asked = Request(**request)
    seen = look_of(model, request)
    outputs = list(seen.outputs())
    # A shorter text has fewer of them: what was chosen in a longer one is then the last.
    position = None if asked.position is None or asked.position >= len(outputs) else asked.position
    found, view = seen.gradients_of(position), seen.view("gradients", position=position)
    return {
        **plain(found),
        "outputs": outputs,
        "about": view.about,
        "pictures": [{"heading": one.heading, "svg": one.svg()} for one in view.pictures],
        "gates": bool(seen.gates),
    }
