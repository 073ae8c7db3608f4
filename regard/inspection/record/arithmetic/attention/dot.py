"""The arithmetic of dot-product attention (layers/attention/dot.py)."""

from __future__ import annotations

from regard.inspection.record.arithmetic.attention._scored import dot_products, states, weighted
from regard.inspection.record.arithmetic.interception import Call
from regard.inspection.record.arithmetic.query_origin import QueryOrigin
from regard.inspection.record.arithmetic.stages import Spelled, scaling
from regard.layers.attention.dot import Dot

__all__ = ["dot"]


def dot(attention: Dot, call: Call, place: int, head: int, names: list[str], given: QueryOrigin) -> Spelled:
    query, memory = call.query[place], call.memory
    found = memory @ query
    stages = [states(names, memory, given), dot_products(names, query, memory, found, "scoreⱼ = s · hⱼ")]
    scores = found * attention.scale
    if attention.scale != 1.0:
        stages.append(scaling(names, found, scores, len(query)))
    return weighted(stages, names, scores, call.visible[place], memory)
