"""The arithmetic of one attention head for one query: a picture of every stage, with its formula."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.studio.questions._trace_cache import TextRequest, cached_trace

__all__ = ["Request", "answer"]


class Request(TextRequest):
    attention: str = Field("cross", max_length=10, description="The kind of attention: cross, source or target.")
    layer: int = Field(0, ge=0, le=1000)
    head: int = Field(0, ge=0, le=1000)
    position: int = Field(0, ge=0, le=10_000, description="The index of the query.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """An index beyond the last one means the last: it may have been chosen for another model or text."""
    from regard.inspection.draw.arithmetic import agreement, draw_stage, title_of_calculation
    from regard.inspection.trace.base import KINDS, Choice, plain

    question = Request.model_validate(request)
    trace = cached_trace(model, {name: value for name, value in request.items() if name in TextRequest.model_fields})
    kinds: dict[str, dict[str, Any]] = {
        kind: {"layers": len(layers), "heads": len(layers[0].weights), "queries": list(trace.queries(kind))}
        for kind in KINDS
        if (layers := trace.of_kind(kind))
    }
    kind = question.attention if question.attention in kinds else next(iter(kinds), question.attention)
    counts = kinds.get(kind, {"layers": 1, "heads": 1, "queries": [""]})
    choice = Choice(
        attention=kind,
        layer=min(question.layer, counts["layers"] - 1),
        head=min(question.head, counts["heads"] - 1),
        position=min(question.position, len(counts["queries"]) - 1),
    )
    found = trace.calculation_of(choice)
    stages = [
        {
            "name": stage.name,
            "formula": stage.formula,
            "sentence": stage.sentence,
            "svg": draw_stage(found, number).svg(),
        }
        for number, stage in enumerate(found.stages)
    ]
    return {
        "kinds": kinds,
        "attention": kind,
        "layer": choice.layer,
        "head": choice.head,
        "position": choice.position,
        "path": found.path,
        "called": title_of_calculation(found),
        "agreement": agreement(found),
        "weights": plain(found.weights),
        "keys": found.keys,
        "stages": stages,
        "texts": [{"text": side.text, "direction": side.direction} for side in trace.texts()],
    }
