"""The arithmetic of multiplicative attention (layers/attention/multiplicative.py)."""

from __future__ import annotations

from torch import Tensor

from regard.inspection.record.arithmetic.attention._scored import dot_products, small_network, states, weighted
from regard.inspection.record.arithmetic.interception import Call, plain, weight_of
from regard.inspection.record.arithmetic.query_origin import QueryOrigin
from regard.inspection.record.arithmetic.stages import Spelled, of_tokens
from regard.inspection.trace.arithmetic import Stage
from regard.layers.attention.multiplicative import Multiplicative

__all__ = ["multiplicative"]


def multiplicative(
    attention: Multiplicative, call: Call, place: int, head: int, names: list[str], given: QueryOrigin
) -> Spelled:
    stages, scores = match(attention, call, place, names, given)
    return weighted(stages, names, scores, call.visible[place], call.memory)


def match(
    attention: Multiplicative, call: Call, place: int, names: list[str], given: QueryOrigin
) -> tuple[list[Stage], Tensor]:
    query, memory = call.query[place], call.memory
    if attention.query and attention.key and attention.vector:
        linears = attention.query, attention.key, attention.vector
        return small_network(linears, call, place, names, given, "scoreⱼ = v · tanh(W [s; hⱼ])")
    if attention.key is None:
        found = memory @ query
        return [states(names, memory, given), dot_products(names, query, memory, found, "scoreⱼ = s · hⱼ")], found
    key = memory @ plain(weight_of(attention.key)).T
    found = key @ query
    said = "A matrix projects each encoder state to the space of the decoder's state."
    turned = Stage("keys", "kⱼ = W hⱼ", said, of_tokens(names, key, "k"))
    return [states(names, memory, given), turned, dot_products(names, query, key, found, "scoreⱼ = s · W hⱼ")], found
