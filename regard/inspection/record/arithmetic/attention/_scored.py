"""Stages that attentions with one head have in common: source states, scores, weighted sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.inspection.record.arithmetic.interception import Call, plain, weight_of
from regard.inspection.record.arithmetic.query_origin import QueryOrigin
from regard.inspection.record.arithmetic.stages import Spelled, mask, of_tokens, products, row, single, softmax_and_sum
from regard.inspection.trace.arithmetic import MASKED, Stage


def small_network(
    linears: Sequence[nn.Module], call: Call, place: int, names: list[str], given: QueryOrigin, formula: str
) -> tuple[list[Stage], Tensor]:
    first, second, last = (plain(weight_of(linear)) for linear in linears)
    query, memory, vector = call.query[place], call.memory, last[0]
    turned, keys = first @ query, memory @ second.T
    matched = torch.tanh(turned + keys)
    scores = matched @ vector
    once = "The encoder's states, projected once for all target tokens."
    inside = "Both are added and squashed to between -1 and 1."
    weighed = "The dot product with a learnt vector v: one number says how well state and token match."
    return [
        states(names, memory, given),
        Stage("query", "W₁ s", "The decoder's state, projected.", [row("W₁ s", turned)]),
        Stage("keys", "W₂ hⱼ", once, of_tokens(names, keys, "W₂ h")),
        Stage("matching", "tanh(W₁ s + W₂ hⱼ)", inside, [*of_tokens(names, matched, "tanh"), row("v", vector)]),
        Stage("scores", formula, weighed, of_tokens(names, scores, "score", single(products(vector, matched, scores)))),
    ], scores


def states(names: list[str], memory: Tensor, given: QueryOrigin) -> Stage:
    if given.symbol != "s":  # a Transformer's
        said = "The vectors of the tokens that can be attended to: weighted and summed in the end."
        return Stage("attended vectors", given.of_keys, said, of_tokens(names, memory, given.of_keys[:-1]))
    said = "The encoder's state at each source token: weighted and summed in the end."
    return Stage("source states", "hⱼ", said, of_tokens(names, memory, "h"))


def dot_products(names: list[str], query: Tensor, key: Tensor, found: Tensor, formula: str) -> Stage:
    said = "The dot product of the state with each key: the more similar, the larger."
    return Stage("dot products", formula, said, of_tokens(names, found, "score", single(products(query, key, found))))


def weighted(
    stages: list[Any], names: list[str], scores: Tensor, seen: Tensor, memory: Tensor, why: str = MASKED
) -> Spelled:
    said = "Masked scores are -∞, which the softmax turns into 0."
    rest, weights, made = softmax_and_sum(names, scores, seen, memory, "h", "c")
    hidden = [] if bool(seen.all()) else [mask(names, scores, seen, said, why)]
    return [*stages, *hidden, *rest], weights, made
