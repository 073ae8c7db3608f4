"""Kernels for the attention of sentences on a GPU, which are short and many: the formula of attend.py in Triton.

One program takes one head of one sentence. In training it holds all scores at once, and computes them anew on the way
back rather than keeping them. In use few queries look at many keys, block by block. Imported only where Triton is.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from regard.layers.attend import attention_weights

MOST = 128
"""Positions whose scores a program can hold."""
FEW = 16
"""Queries that are few."""
BLOCK = 32
"""Keys that few queries look at together."""


@triton.jit
def _place(strides, head, heads, position, column):
    """Where the vectors of a head lie in a tensor (B T H K), whose first three strides are given."""
    start = (head // heads).to(tl.int64) * strides[0] + (head % heads) * strides[2]
    return start + position[:, None] * strides[1] + column[None, :]


@triton.jit
def _read(tensor, strides, head, heads, length, position, column):
    inside = position[:, None] < length
    return tl.load(tensor + _place(strides, head, heads, position, column), mask=inside, other=0.0)


@triton.jit
def _write(tensor, strides, head, heads, length, position, column, values):
    inside = position[:, None] < length
    tl.store(tensor + _place(strides, head, heads, position, column), values.to(tensor.dtype.element_ty), mask=inside)


@triton.jit
def _weights(query, key, cost, sentence, has_cost, causal, keys, position, scale):
    """attention_weights; what may not be seen weighs 0."""
    costs = tl.load(cost + sentence.to(tl.int64) * keys + position, mask=(position < keys) & (has_cost != 0), other=0.0)
    scores = tl.dot(query, tl.trans(key)) * scale + costs[None, :].to(tl.float32)
    seen = (position[None, :] < keys) & ((position[None, :] <= position[:, None]) | (causal == 0))
    scores = tl.where(seen, scores, -float("inf"))
    most = tl.max(scores, 1)
    weights = tl.exp(scores - tl.where(most == -float("inf"), 0.0, most)[:, None])
    total = tl.sum(weights, 1)
    return weights / tl.where(total == 0.0, 1.0, total)[:, None]


# Lengths and flags differ from call to call: none of them is worth a kernel of its own.
_OPEN = ["queries", "keys", "has_cost", "causal"]


@triton.jit(do_not_specialize=_OPEN)
def _forward(
    q, k, v, cost, out, q_strides, k_strides, v_strides, out_strides,
    heads, queries, keys, scale, has_cost, causal, SIZE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    position, column = tl.arange(0, SIZE), tl.arange(0, WIDTH)
    query = _read(q, q_strides, head, heads, queries, position, column)
    key = _read(k, k_strides, head, heads, keys, position, column)
    value = _read(v, v_strides, head, heads, keys, position, column)
    weights = _weights(query, key, cost, head // heads, has_cost, causal, keys, position, scale)
    _write(out, out_strides, head, heads, queries, position, column, tl.dot(weights.to(value.dtype), value))


@triton.jit(do_not_specialize=_OPEN)
def _backward(
    q, k, v, cost, d_out, dq, dk, dv,
    q_strides, k_strides, v_strides, d_out_strides, dq_strides, dk_strides, dv_strides,
    heads, queries, keys, scale, has_cost, causal, SIZE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    position, column = tl.arange(0, SIZE), tl.arange(0, WIDTH)
    query = _read(q, q_strides, head, heads, queries, position, column)
    key = _read(k, k_strides, head, heads, keys, position, column)
    value = _read(v, v_strides, head, heads, keys, position, column)
    change = _read(d_out, d_out_strides, head, heads, queries, position, column)
    weights = _weights(query, key, cost, head // heads, has_cost, causal, keys, position, scale)
    d_value = tl.dot(tl.trans(weights.to(change.dtype)), change)
    _write(dv, dv_strides, head, heads, keys, position, column, d_value)
    d_weights = tl.dot(change, tl.trans(value))
    d_scores = (weights * (d_weights - tl.sum(weights * d_weights, 1)[:, None]) * scale).to(query.dtype)
    _write(dq, dq_strides, head, heads, queries, position, column, tl.dot(d_scores, key))
    _write(dk, dk_strides, head, heads, keys, position, column, tl.dot(tl.trans(d_scores), query))


@torch.library.custom_op("regard::short_attention", mutates_args=())
def short_attention(given: Sequence[Tensor], cost: Tensor | None, causal: bool) -> Tensor:
    """What queries (B T H K) find at keys and values (B S H K). `given` are these three, or for vectors that look at
    each other the one projection (B T 3 H K) that made all of them. `cost` (B S) is added to the scores."""
    query, key, value = tensors = _three(given)
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    if _fits(query, key):
        _launch(_forward, tensors, cost, causal, (out,))
    else:
        mask = None if cost is None else cost[:, None, None]
        query, key, value = (tensor.transpose(1, 2) for tensor in tensors)
        out.copy_(F.scaled_dot_product_attention(query, key, value, mask, is_causal=causal).transpose(1, 2))
    return out


@torch.library.custom_op("regard::short_attention_backward", mutates_args=())
def short_attention_backward(d_out: Tensor, given: Sequence[Tensor], cost: Tensor | None, causal: bool) -> list[Tensor]:
    query, key, value = tensors = _three(given)
    d_given = _like(given)
    if _fits(query, key):
        _launch(_backward, tensors, cost, causal, (d_out.contiguous(), *_three(d_given)))
        return d_given
    # What the kernel does, for the few that are too long for it.
    d_query, d_key, d_value = (tensor.transpose(1, 2) for tensor in _three(d_given))
    query, key, value, d_out = (tensor.transpose(1, 2) for tensor in (*tensors, d_out))
    weights = attention_weights(query, key, None if cost is None else cost[:, None, None] == 0, causal)
    d_value.copy_(weights.transpose(-2, -1) @ d_out)
    d_weights = d_out @ value.transpose(-2, -1)
    d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True)) * query.shape[-1] ** -0.5
    d_query.copy_(d_scores @ key)
    d_key.copy_(d_scores.transpose(-2, -1) @ query)
    return d_given


def _three(given: Sequence[Tensor]) -> Sequence[Tensor]:
    return given[0].unbind(2) if len(given) == 1 else given


def _fits(query: Tensor, key: Tensor) -> bool:
    return max(query.shape[1], key.shape[1]) <= MOST


def _launch(kernel: Any, tensors: Sequence[Tensor], cost: Tensor | None, causal: bool, others: Any) -> None:
    query, key, _ = tensors
    sentences, queries, heads, width = query.shape
    size = max(32, triton.next_power_of_2(max(queries, key.shape[1])))
    kernel[(sentences * heads,)](
        *tensors, query if cost is None else cost.contiguous(), *others,
        *(tensor.stride()[:3] for tensor in (*tensors, *others)),
        heads, queries, key.shape[1], width**-0.5, int(cost is not None), int(causal), size, width,
        num_warps=4 if size > 32 else 2,
    )  # fmt: skip


def _like(given: Sequence[Tensor]) -> list[Tensor]:
    return [torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor in given]


@short_attention.register_fake
def _(given, cost, causal):
    return _like(_three(given)[:1])[0]


@short_attention_backward.register_fake
def _(d_out, given, cost, causal):
    return _like(given)


def _keep(ctx: Any, inputs: Any, output: Tensor) -> None:
    given, cost, ctx.causal = inputs
    ctx.save_for_backward(cost, *given)


def _pull_back(ctx: Any, d_out: Tensor) -> Any:
    cost, *given = ctx.saved_tensors
    return short_attention_backward(d_out, given, cost, ctx.causal), None, None


short_attention.register_autograd(_pull_back, setup_context=_keep)


@triton.jit(do_not_specialize=["queries", "keys", "has_cost", "cost_b", "cost_q"])
def _few(
    q, k, v, cost, out, q_strides, k_strides, v_strides, out_strides, cost_b, cost_q,
    heads, queries, keys, scale, has_cost, SIZE: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    row, column = tl.arange(0, SIZE), tl.arange(0, WIDTH)
    query = _read(q, q_strides, head, heads, queries, row, column)
    cost += (head // heads).to(tl.int64) * cost_b
    # Of the keys so far: the highest score, the weights' sum and the values mixed by them, both relative to it.
    most = tl.full([SIZE], -float("inf"), tl.float32)
    total = tl.zeros([SIZE], tl.float32)
    mixed = tl.zeros([SIZE, WIDTH], tl.float32)
    for start in range(0, keys, BLOCK):
        position = start + tl.arange(0, BLOCK)
        key = _read(k, k_strides, head, heads, keys, position, column)
        value = _read(v, v_strides, head, heads, keys, position, column)
        known = (row[:, None] < queries) & (position[None, :] < keys) & (has_cost != 0)
        costs = tl.load(cost + row[:, None] * cost_q + position[None, :], mask=known, other=0.0)
        scores = tl.dot(query, tl.trans(key)) * scale + costs.to(tl.float32)
        scores = tl.where(position[None, :] < keys, scores, -float("inf"))
        higher = tl.maximum(most, tl.max(scores, 1))
        level = tl.where(higher == -float("inf"), 0.0, higher)
        weights = tl.exp(scores - level[:, None])
        less = tl.exp(most - level)
        total = total * less + tl.sum(weights, 1)
        mixed = mixed * less[:, None] + tl.dot(weights.to(value.dtype), value)
        most = higher
    mixed = mixed / tl.where(total == 0.0, 1.0, total)[:, None]
    _write(out, out_strides, head, heads, queries, row, column, mixed)


def few_queries(query: Tensor, key: Tensor, value: Tensor, cost: Tensor | None) -> Tensor:
    """What a few queries (B T H K) find at keys and values (B S H K), without gradients. `cost` fits (B T S)."""
    sentences, queries, heads, width = query.shape
    keys = key.shape[1]
    costs = query if cost is None else cost.expand(sentences, queries, keys)
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    _few[(sentences * heads,)](
        query, key, value, costs, out,
        *(tensor.stride()[:3] for tensor in (query, key, value, out)), *costs.stride()[:2],
        heads, queries, keys, width**-0.5, int(cost is not None), FEW, BLOCK, width, num_warps=1,
    )  # fmt: skip
    return out
