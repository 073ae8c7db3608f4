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
from regard.layers.attend import Rotation, rotate
from regard.layers.attention.multi_head import MultiHead

__all__ = ["multi_head"]

CAUSAL = "Masked scores are -∞, which the softmax turns into 0: no token attends to tokens after it."


def multi_head(
    attention: MultiHead, call: Call, place: int, head: int, names: list[str], given: QueryOrigin
) -> Spelled:
    size, width = attention.head_width, attention.width
    weight, bias = plain(weight_of(attention.inward)), _bias(attention.inward)
    x, memory, seen = call.query[place], call.memory, call.visible[place]

    group = attention.heads // attention.kv_heads
    """Heads that share keys and values."""

    def rows(which: int, number: int) -> slice:
        """The rows of W_Q, W_K or W_V that belong to a head."""
        start = sum(attention.sizes[:which]) + (number if which == 0 else number // group) * size
        return slice(start, start + size)

    def projected(which: int, number: int, of: Tensor) -> Tensor:
        return of @ weight[rows(which, number)].T + bias[rows(which, number)]

    def turned(heads: Tensor, places: slice) -> Tensor:
        """Rotated as the positions of these rows say."""
        if call.rotation is None:
            return heads
        cosine, sine = (part[places] for part in call.rotation)
        return rotate(heads[None, :, None], (cosine, sine))[0, :, 0]

    def query_of(number: int) -> Tensor:
        return turned(projected(0, number, x)[None], slice(place, place + 1))[0]

    def keys_of(number: int) -> Tensor:
        return turned(projected(1, number, memory), slice(None))

    def scores_of(number: int) -> Tensor:
        return keys_of(number) @ query_of(number)

    def relative_of(number: int) -> Tensor:
        return torch.zeros(len(names)) if call.relative is None else call.relative[number, place].where(seen, 0.0)

    query, key, value = (projected(i, head, of) for i, of in enumerate((x, memory, memory)))
    own = rows(0, head)
    turned_query, turned_key = query_of(head), keys_of(head)
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
            f"A key for each token; {given.keys_are}.{_shared(head, group)}",
            of_tokens(names, key, "k"),
        ),
        Stage(
            "values",
            f"vⱼ = W_V {given.of_keys}{plus('V', attention.inward)}",
            "A value for each token: what it contributes to the output.",
            of_tokens(names, value, "v"),
        ),
        *([] if call.rotation is None else _rotation(call.rotation, place, query, turned_query, names, turned_key)),
        Stage(
            "dot products",
            "scoreⱼ = q · kⱼ" if call.rotation is None else "scoreⱼ = q′ · k′ⱼ",
            "The dot product of the query with each key: the more similar, the larger.",
            of_tokens(names, scores, "q · k", single(products(turned_query, turned_key, scores))),
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


def _shared(head: int, group: int) -> str:
    """Which heads have the same keys and values."""
    first = head // group * group
    return "" if group == 1 else f" The heads {first} to {first + group - 1} share these keys, and the values."


def _rotation(
    rotation: Rotation, place: int, query: Tensor, turned: Tensor, names: list[str], turned_keys: Tensor
) -> list[Stage]:
    cosine, sine = rotation[0][place].tolist(), rotation[1][place].tolist()
    half, values, after = len(query) // 2, query.tolist(), turned.tolist()
    how = [
        f"{short_number(values[i])} × {short_number(cosine[i])} {'-' if i < half else '+'} "
        f"{short_number(values[(i + half) % len(values)])} × {short_number(sine[i])} = {short_number(after[i])}"
        for i in range(len(values))
    ]
    sentence = (
        f"The query's columns i and {half} + i are the two coordinates of a point, which is rotated by an angle: its "
        f"position, {place}, times a rate that falls from 1 with i."
    )
    keys = "Each key is rotated likewise by its own position, so that q′ · k′ⱼ depends on the distance j - i alone."
    return [
        Stage("rotated query", "q′ᵢ = qᵢ cos(pos rᵢ) ∓ qᵢ₊ₕ sin(pos rᵢ)", sentence, [row("q′", turned, how=how)]),
        Stage("rotated keys", "k′ⱼ = rotate(kⱼ, j)", keys, of_tokens(names, turned_keys, "k′")),
    ]


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
