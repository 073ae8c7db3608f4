"""Draw any view of a trace: the same pictures that `regard inspect` writes to files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from regard.errors import UserError
from regard.studio.questions._trace_cache import TextRequest, cached_trace

if TYPE_CHECKING:
    from regard.inspection.draw.view import Picture
    from regard.inspection.trace.base import Trace

__all__ = ["Request", "answer"]

MOST_LINES = 2000
"""Lines of one head: with more of them the page would freeze while it draws."""


class Request(TextRequest):
    view: str = Field("", max_length=30, description="The name of a view; by default the trace's default view.")
    layer: int | None = Field(None, ge=0, le=1000)
    head: int | None = Field(None, ge=0, le=1000)
    attention: str = Field("cross", max_length=10, description="The kind of attention: cross, source or target.")
    tokens: bool = False
    position: int | None = Field(None, ge=0, le=10_000, description="The index of a query, step or position.")
    unit: int | None = Field(None, ge=0, le=100_000, description="The index of a unit of a recurrent layer.")
    only: int | None = Field(None, ge=0, le=100, description="Draw only this picture of the view.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """The heading of every picture, and the SVG of those that are drawn; `kinds` are the layers and heads of each kind
    of attention."""
    question = Request(**request)
    trace = cached_trace(model, request)
    attention = question.attention
    if trace.attention and not trace.of_kind(attention):
        attention = trace.attention[0].kind
    view = trace.view(
        question.view,
        layer=question.layer,
        head=question.head,
        attention=attention,
        tokens=question.tokens,
        position=question.position,
        unit=question.unit,
    )
    if question.only is not None and question.only >= len(view.pictures):
        raise UserError(f"picture {question.only}: this view has the pictures 0 to {len(view.pictures) - 1}")
    pictures = []
    for number, one in enumerate(view.pictures):
        picture: dict[str, Any] = {"heading": one.heading}
        if one.kind:
            picture |= {"kind": one.kind, "layer": one.layer, "head": one.head}
        if question.only in (None, number):
            picture |= _head(trace, one) if one.kind else {"svg": one.svg()}
        pictures.append(picture)
    kinds = {
        layer.kind: {"layers": len(trace.of_kind(layer.kind)), "heads": len(layer.weights)} for layer in trace.attention
    }
    texts = [{"text": side.text, "direction": side.direction} for side in trace.texts()]
    return {"view": view.name, "about": view.about, "pictures": pictures, "kinds": kinds, "texts": texts}


def _head(trace: Trace, one: Picture) -> dict[str, Any]:
    """One head as lines; only the strongest where there are too many."""
    import numpy as np

    from regard.inspection.draw.attention_lines import draw_lines
    from regard.inspection.trace.base import KINDS

    weights = trace.of_kind(one.kind)[one.layer].weights[one.head]
    left_out = max(0, weights.size - MOST_LINES)
    drawn = weights
    if left_out:
        faintest = np.partition(weights.ravel(), left_out)[left_out]
        drawn = np.where(weights >= faintest, weights, np.float32(0))
    heading = f"{KINDS[one.kind]}, layer {one.layer}, head {one.head}"
    svg = draw_lines(drawn, trace.keys(one.kind), trace.queries(one.kind), heading).svg()
    note = f"The {MOST_LINES:,} strongest of {weights.size:,} lines are drawn." if left_out else ""
    return {"svg": svg, "note": note}
