"""The arithmetic of multi-head attention, for one token and one head (layers/attention/multi_head.py)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.inspection.record.arithmetic.interception import Call, bias_of, plain, weight_of
from regard.inspection.record.arithmetic.query_origin import QueryOrigin
from regard.inspection.record.arithmetic.stages import (
    Spelled,
    mask,
    of_tokens,
    products,
    row,
    scaling,
    single,
    softmax,
    softmax_and_sum,
)
from regard.inspection.trace.arithmetic import Stage, short_number
from regard.layers.attention.multi_head import MultiHead

__all__ = ["multi_head"]

CAUSAL = "Masked scores are -∞, which the softmax turns into 0: no token attends to tokens after it."


def multi_head(
    attention: MultiHead, call: Call, place: int, head: int, names: list[str], given: QueryOrigin
) -> Spelled:
    size, width = attention.head_width, attention.width
    weight, bias = plain(weight_of(attention.inward)), _bias(attention.inward)
    x, memory, seen = call.query[place], call.memory, call.visible[place]

    def projected(which: int, number: int, of: Tensor) -> Tensor:
        start = which * attention.size + number * size
        own = slice(start, start + size)
        return of @ weight[own].T + bias[own]

    def scores_of(number: int) -> Tensor:
        return projected(1, number, memory) @ projected(0, number, x)

    def relative_of(number: int) -> Tensor:
        return torch.zeros(len(names)) if call.relative is None else call.relative[number, place].where(seen, 0.0)

    query, key, value = (projected(i, head, of) for i, of in enumerate((x, memory, memory)))
    own = slice(head * size, (head + 1) * size)
    scores = scores_of(head)
    scaled = scores / math.sqrt(size)
    total = scaled + relative_of(head)
    how_query = products(x, weight[own], query, [short_number(b) for b in bias[own].tolist()])
    rest, weights, found = softmax_and_sum(names, total, seen, value, "v", _head(head))

    def found_by(number: int) -> Tensor:
        scores = scores_of(number) / math.sqrt(size) + relative_of(number)
        return softmax(scores, seen) @ projected(2, number, memory)

    every = [found if number == head else found_by(number) for number in range(attention.heads)]
    together = torch.cat(every)
    out, out_bias = plain(weight_of(attention.outward)), _bias(attention.outward)
    made = out @ together + out_bias

    def plus(name: str, linear: nn.Module) -> str:
        return "" if bias_of(linear) is None else f" + b_{name}"

    some = "; ".join(_head(n) for n in range(min(3, attention.heads))) + ("; …" if attention.heads > 3 else "")
    stages = [
        Stage(
            "query",
            f"q = W_Q {given.symbol}{plus('Q', attention.inward)}",
            f"The query of head {head}: a projection of the {width} numbers to {size}.",
            [row("q", query, how=how_query)],
        ),
        Stage(
            "keys",
            f"kⱼ = W_K {given.of_keys}{plus('K', attention.inward)}",
            f"A key for each token; {given.keys_are}.",
            of_tokens(names, key, "k"),
        ),
        Stage(
            "values",
            f"vⱼ = W_V {given.of_keys}{plus('V', attention.inward)}",
            "A value for each token: what it contributes to the output.",
            of_tokens(names, value, "v"),
        ),
        Stage(
            "dot products",
            "scoreⱼ = q · kⱼ",
            "The dot product of the query with each key: the more similar, the larger.",
            of_tokens(names, scores, "q · k", single(products(query, key, scores))),
        ),
        scaling(names, scores, scaled, size),
        *([] if call.relative is None else [_relative(names, scaled, relative_of(head), total)]),
        mask(names, total, seen, CAUSAL),
        *rest,
        Stage(
            "all heads",
            f"concat = [{some}]",
            f"The other heads compute the same with their own weights; the outputs of all {attention.heads} heads are "
            "concatenated."
            if attention.heads > 1
            else "There is only one head, so this is its output.",
            [row(f"head {n}{' ←' if n == head else ''}", one, _head(n)) for n, one in enumerate(every)],
        ),
        Stage(
            "output",
            f"o = W_O concat{plus('O', attention.outward)}",
            "A projection combines the outputs of the heads.",
            [row("o", made, how=products(together, out, made, [short_number(b) for b in out_bias.tolist()]))],
        ),
    ]
    return stages, weights, made


def _relative(names: list[str], scaled: Tensor, added: Tensor, total: Tensor) -> Stage:
    how = [
        f"{short_number(s)} + {short_number(b)} = {short_number(t)}"
        for s, b, t in zip(scaled.tolist(), added.tolist(), total.tolist())
    ]
    sentence = "A learnt number for this head and the distance between the tokens is added: the relative position."
    return Stage("relative position", "scoreⱼ + b(j - i)", sentence, of_tokens(names, total, "score", single(how)))


def _bias(linear: nn.Module) -> Tensor:
    bias = bias_of(linear)
    return torch.zeros(len(weight_of(linear))) if bias is None else plain(bias)


def _head(number: int) -> str:
    return f"head{str(number).translate(str.maketrans('0123456789', '₀₁₂₃₄₅₆₇₈₉'))}"
