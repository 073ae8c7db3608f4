"""Any view of what a model did, as pictures: the same that `regard inspect` puts in files."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.errors import UserError
from regard.studio.questions._kept import AskedOfText, look_of

__all__ = ["Request", "answer"]

MOST_LINES = 2000
"""Lines of one head: a page with more of them would stand still while it draws."""


class Request(AskedOfText):
    view: str = Field("", max_length=30, description="A view's name, else the one that says most of the model.")
    layer: int | None = Field(None, ge=0, le=1000)
    head: int | None = Field(None, ge=0, le=1000)
    attention: str = Field("cross", max_length=10, description="Whose head: cross, source or target.")
    tokens: bool = False
    only: int | None = Field(None, ge=0, le=100, description="Which of the pictures is drawn; else all are.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Every picture by its heading, those that are drawn with their SVG; `kinds` says how many layers and heads there
    are of each attention."""
    asked = Request(**request)
    seen = look_of(model, request)
    attention = asked.attention if seen.of_kind(asked.attention) or not seen.attention else seen.attention[0].kind
    view = seen.view(asked.view, layer=asked.layer, head=asked.head, attention=attention, tokens=asked.tokens)
    if asked.only is not None and asked.only >= len(view.pictures):
        raise UserError(f"picture {asked.only}: this view has the pictures 0 to {len(view.pictures) - 1}")
    pictures = []
    for number, one in enumerate(view.pictures):
        told: dict[str, Any] = {"heading": one.heading}
        if one.kind:
            told |= {"kind": one.kind, "layer": one.layer, "head": one.head}
        if asked.only in (None, number):
            told |= _head(seen, one) if one.kind else {"svg": one.svg()}
        pictures.append(told)
    kinds = {
        layer.kind: {"layers": len(seen.of_kind(layer.kind)), "heads": len(layer.weights)} for layer in seen.attention
    }
    texts = [{"text": side.text, "direction": side.direction} for side in seen.texts()]
    return {"view": view.name, "about": view.about, "pictures": pictures, "kinds": kinds, "texts": texts}


def _head(seen: Any, one: Any) -> dict[str, Any]:
    """One head as lines, only the strongest of very many."""
    import numpy as np

    from regard.inspection.draw.attention_lines import lines
    from regard.inspection.trace.base import KINDS

    weights = seen.of_kind(one.kind)[one.layer].weights[one.head]
    left_out = max(0, weights.size - MOST_LINES)
    shown = weights
    if left_out:
        faintest = np.partition(weights.ravel(), left_out)[left_out]
        shown = np.where(weights >= faintest, weights, np.float32(0))
    heading = f"{KINDS[one.kind]}, layer {one.layer}, head {one.head}"
    drawn = lines(shown, seen.keys(one.kind), seen.queries(one.kind), heading).svg()
    note = f"The {MOST_LINES:,} strongest of {weights.size:,} lines are drawn." if left_out else ""
    return {"svg": drawn, "note": note}
