"""The arithmetic of additive attention (layers/attention/additive.py)."""

from __future__ import annotations

from regard.inspection.record.arithmetic.attention._scored import small_network, weighted
from regard.inspection.record.arithmetic.interception import Call
from regard.inspection.record.arithmetic.query_origin import QueryOrigin
from regard.inspection.record.arithmetic.stages import Spelled
from regard.layers.attention.additive import Additive

__all__ = ["additive"]


def additive(attention: Additive, call: Call, place: int, head: int, names: list[str], given: QueryOrigin) -> Spelled:
    linears = attention.query, attention.key, attention.score
    stages, scores = small_network(linears, call, place, names, given, "scoreⱼ = v · tanh(W₁ s + W₂ hⱼ)")
    return weighted(stages, names, scores, call.visible[place], call.memory)
