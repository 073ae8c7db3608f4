"""One attention head followed by its numbers, for one token: a picture of every stage, with its formula."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.studio.questions._kept import AskedOfText, look_of

__all__ = ["Request", "answer"]


class Request(AskedOfText):
    attention: str = Field("cross", max_length=10, description="Whose head: cross, source or target.")
    layer: int = Field(0, ge=0, le=1000)
    head: int = Field(0, ge=0, le=1000)
    position: int = Field(0, ge=0, le=10_000, description="Which token looks, from 0.")


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """What there is not, the last there is stands for: of another model or sentence there may be fewer."""
    from regard.inspection.draw.arithmetic import agreement, called, worked_stage
    from regard.inspection.trace.base import KINDS, Choice, plain

    asked = Request.model_validate(request)
    seen = look_of(model, {name: value for name, value in request.items() if name in AskedOfText.model_fields})
    kinds: dict[str, dict[str, Any]] = {
        kind: {"layers": len(layers), "heads": len(layers[0].weights), "queries": list(seen.queries(kind))}
        for kind in KINDS
        if (layers := seen.of_kind(kind))
    }
    kind = asked.attention if asked.attention in kinds else next(iter(kinds), asked.attention)
    there = kinds.get(kind, {"layers": 1, "heads": 1, "queries": [""]})
    choice = Choice(
        attention=kind,
        layer=min(asked.layer, there["layers"] - 1),
        head=min(asked.head, there["heads"] - 1),
        position=min(asked.position, len(there["queries"]) - 1),
    )
    found = seen.calculation_of(choice)
    stages = [
        {
            "name": stage.name,
            "formula": stage.formula,
            "sentence": stage.sentence,
            "svg": worked_stage(found, number).svg(),
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
        "called": called(found),
        "agreement": agreement(found),
        "weights": plain(found.weights),
        "keys": found.keys,
        "stages": stages,
        "texts": [{"text": side.text, "direction": side.direction} for side in seen.texts()],
    }
