"""The attentions of recurrent decoders spelled out for one state: additive, multiplicative, dot, local."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.inspection.record.arithmetic.interception import Call, plain, weight_of
from regard.inspection.record.arithmetic.query_origin import Coming
from regard.inspection.record.arithmetic.stages import Spelled, looked, mask, of_tokens, products, row, scaling, single
from regard.inspection.trace.arithmetic import MASKED, Stage, written
from regard.layers.attention.additive import Additive
from regard.layers.attention.dot import Dot
from regard.layers.attention.local import Local
from regard.layers.attention.multiplicative import Multiplicative


def additive(attention: Additive, call: Call, place: int, head: int, names: list[str], given: Coming) -> Spelled:
    linears = attention.query, attention.key, attention.score
    stages, scores = _small_network(linears, call, place, names, "scoreⱼ = v · tanh(W₁ s + W₂ hⱼ)")
    return _seen(stages, names, scores, call.visible[place], call.memory)


def multiplicative(
    attention: Multiplicative, call: Call, place: int, head: int, names: list[str], given: Coming
) -> Spelled:
    stages, scores = _match(attention, call, place, names)
    return _seen(stages, names, scores, call.visible[place], call.memory)


def dot(attention: Dot, call: Call, place: int, head: int, names: list[str], given: Coming) -> Spelled:
    query, memory = call.query[place], call.memory
    found = memory @ query
    stages = [_states(names, memory), _products(names, query, memory, found, "scoreⱼ = s · hⱼ")]
    scores = found * attention.scale
    if attention.scale != 1.0:
        stages.append(scaling(names, found, scores, len(query)))
    return _seen(stages, names, scores, call.visible[place], memory)


def local(attention: Local, call: Call, place: int, head: int, names: list[str], given: Coming) -> Spelled:
    stages, scores = _match(attention.match, call, place, names)
    query, seen, reach = call.query[place], call.visible[place], attention.window
    positions, length = torch.arange(len(names)), int(seen.sum())
    if attention.place is None:
        centre = torch.tensor(float(min(int(call.places[place]), max(0, length - 1))))
        said = "It looks around the place it has come to itself, but not beyond the end of the source."
        stages.append(Stage("place", "p = t", said, [row("p", centre[None])]))
    else:
        inner, outer = (plain(weight_of(attention.place[i])) for i in (0, 2))
        hidden = torch.tanh(inner @ query)
        guess = outer[0] @ hidden
        centre = length * torch.sigmoid(guess)
        how = [f"{length} × σ({written(float(guess))}) = {written(float(centre))}"]
        said = f"A small network guesses where to look: a place between 0 and {length}, the length of the source."
        rows = [row("tanh(Wₚ s)", hidden), row("p", centre[None], how=how)]
        stages.append(Stage("place", "p = S · σ(vₚ · tanh(Wₚ s))", said, rows))
        before, scores = scores, scores - (positions - centre) ** 2 / (2 * (reach / 2) ** 2)
        taken = [
            f"{written(s)} - ({j} - {written(float(centre))})² ÷ {written(reach * reach / 2)} = {written(t)}"
            for j, (s, t) in enumerate(zip(before.tolist(), scores.tolist()))
        ]
        said = "What is far from the place loses: the logarithm of a Gaussian around it is added to the scores."
        formula = f"scoreⱼ - (j - p)² / (2 · {written(reach / 2)}²)"
        stages.append(Stage("Gaussian", formula, said, of_tokens(names, scores, "score", single(taken))))
    near = (positions - centre).abs() <= reach
    return _seen(stages, names, scores, seen & near, call.memory, f"farther than {reach} from p")


def _match(attention: Multiplicative, call: Call, place: int, names: list[str]) -> tuple[list[Stage], Tensor]:
    query, memory = call.query[place], call.memory
    if attention.query and attention.key and attention.vector:
        linears = attention.query, attention.key, attention.vector
        return _small_network(linears, call, place, names, "scoreⱼ = v · tanh(W [s; hⱼ])")
    if attention.key is None:
        found = memory @ query
        return [_states(names, memory), _products(names, query, memory, found, "scoreⱼ = s · hⱼ")], found
    key = memory @ plain(weight_of(attention.key)).T
    found = key @ query
    said = "A matrix turns each state of the source into what the decoder's state can be compared with."
    turned = Stage("keys", "kⱼ = W hⱼ", said, of_tokens(names, key, "k"))
    return [_states(names, memory), turned, _products(names, query, key, found, "scoreⱼ = s · W hⱼ")], found


def _small_network(
    linears: Sequence[nn.Module], call: Call, place: int, names: list[str], formula: str
) -> tuple[list[Stage], Tensor]:
    first, second, last = (plain(weight_of(linear)) for linear in linears)
    query, memory, vector = call.query[place], call.memory, last[0]
    asked, offered = first @ query, memory @ second.T
    matched = torch.tanh(asked + offered)
    scores = matched @ vector
    once = "The states of the source, turned likewise: once, for all words that will be written."
    inside = "Both are added, and squashed between -1 and 1."
    weighed = "A learnt vector v weighs what is inside: one number says how well state and token match."
    return [
        _states(names, memory),
        Stage("query", "W₁ s", "The decoder's state, turned by a matrix of its own.", [row("W₁ s", asked)]),
        Stage("keys", "W₂ hⱼ", once, of_tokens(names, offered, "W₂ h")),
        Stage("matching", "tanh(W₁ s + W₂ hⱼ)", inside, [*of_tokens(names, matched, "tanh"), row("v", vector)]),
        Stage("scores", formula, weighed, of_tokens(names, scores, "score", single(products(vector, matched, scores)))),
    ], scores


def _states(names: list[str], memory: Tensor) -> Stage:
    said = "What the encoder had at each token of the source: these are looked at, and in the end mixed."
    return Stage("source states", "hⱼ", said, of_tokens(names, memory, "h"))


def _products(names: list[str], query: Tensor, key: Tensor, found: Tensor, formula: str) -> Stage:
    said = "Number by number the state is multiplied with a key and the products are added: the more alike, the more."
    return Stage("dot products", formula, said, of_tokens(names, found, "score", single(products(query, key, found))))


def _seen(
    stages: list[Any], names: list[str], scores: Tensor, seen: Tensor, memory: Tensor, why: str = MASKED
) -> Spelled:
    said = "What may not be seen gets -∞, which the softmax turns into 0."
    rest, weights, made = looked(names, scores, seen, memory, "h", "c")
    hidden = [] if bool(seen.all()) else [mask(names, scores, seen, said, why)]
    return [*stages, *hidden, *rest], weights, made
