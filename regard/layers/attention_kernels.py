"""Triton kernels for attention over many short sequences: the formula of attend.py.

One program per head and sentence. In training it holds all scores at once, and the backward pass recomputes them
instead of storing them. In decoding, few queries attend to many keys, block by block. Imported only where Triton is
installed.
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
"""The longest sequence whose scores a program can hold."""
FEW = 16
"""The most queries of the decoding kernel."""
BLOCK = 32
"""Keys per block of the decoding kernel."""


@triton.jit
def _offsets(strides, head, heads, position, column):
    """Offsets of the vectors of a head in a tensor (B T H K), from its first three strides."""
    start = (head // heads).to(tl.int64) * strides[0] + (head % heads) * strides[2]
    return start + position[:, None] * strides[1] + column[None, :]


@triton.jit
def _read(tensor, strides, head, heads, length, position, column):
    inside = position[:, None] < length
    return tl.load(tensor + _offsets(strides, head, heads, position, column), mask=inside, other=0.0)


@triton.jit
def _write(tensor, strides, head, heads, length, position, column, values):
    inside = position[:, None] < length
    tl.store(tensor + _offsets(strides, head, heads, position, column), values.to(tensor.dtype.element_ty), mask=inside)


@triton.jit
def _weights(query, key, bias, sentence, has_bias, causal, keys, position, scale):
    """attention_weights; masked positions weigh 0."""
    known = (position < keys) & (has_bias != 0)
    biases = tl.load(bias + sentence.to(tl.int64) * keys + position, mask=known, other=0.0)
    scores = tl.dot(query, tl.trans(key)) * scale + biases[None, :].to(tl.float32)
    visible = (position[None, :] < keys) & ((position[None, :] <= position[:, None]) | (causal == 0))
    scores = tl.where(visible, scores, -float("inf"))
    most = tl.max(scores, 1)
    weights = tl.exp(scores - tl.where(most == -float("inf"), 0.0, most)[:, None])
    total = tl.sum(weights, 1)
    return weights / tl.where(total == 0.0, 1.0, total)[:, None]


# Lengths and flags vary from call to call: Triton must not compile a kernel for each value.
_OPEN = ["queries", "keys", "has_bias", "causal"]


@triton.jit(do_not_specialize=_OPEN)
def _forward(
    q, k, v, bias, out, q_strides, k_strides, v_strides, out_strides,
    heads, queries, keys, scale, has_bias, causal, SIZE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    position, column = tl.arange(0, SIZE), tl.arange(0, WIDTH)
    query = _read(q, q_strides, head, heads, queries, position, column)
    key = _read(k, k_strides, head, heads, keys, position, column)
    value = _read(v, v_strides, head, heads, keys, position, column)
    weights = _weights(query, key, bias, head // heads, has_bias, causal, keys, position, scale)
    _write(out, out_strides, head, heads, queries, position, column, tl.dot(weights.to(value.dtype), value))


@triton.jit(do_not_specialize=_OPEN)
def _backward(
    q, k, v, bias, d_out, dq, dk, dv,
    q_strides, k_strides, v_strides, d_out_strides, dq_strides, dk_strides, dv_strides,
    heads, queries, keys, scale, has_bias, causal, SIZE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    position, column = tl.arange(0, SIZE), tl.arange(0, WIDTH)
    query = _read(q, q_strides, head, heads, queries, position, column)
    key = _read(k, k_strides, head, heads, keys, position, column)
    value = _read(v, v_strides, head, heads, keys, position, column)
    change = _read(d_out, d_out_strides, head, heads, queries, position, column)
    weights = _weights(query, key, bias, head // heads, has_bias, causal, keys, position, scale)
    d_value = tl.dot(tl.trans(weights.to(change.dtype)), change)
    _write(dv, dv_strides, head, heads, keys, position, column, d_value)
    d_weights = tl.dot(change, tl.trans(value))
    d_scores = (weights * (d_weights - tl.sum(weights * d_weights, 1)[:, None]) * scale).to(query.dtype)
    _write(dq, dq_strides, head, heads, queries, position, column, tl.dot(d_scores, key))
    _write(dk, dk_strides, head, heads, keys, position, column, tl.dot(tl.trans(d_scores), query))


@torch.library.custom_op("regard::short_attention", mutates_args=())
def short_attention(inputs: Sequence[Tensor], bias: Tensor | None, causal: bool) -> Tensor:
    """Attention of queries (B T H K) to keys and values (B S H K). `inputs` are these three, or for self-attention the
    one tensor (B T 3 H K) that holds them all. `bias` (B S) is added to the scores."""
    query, key, value = tensors = _three(inputs)
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    if _fits(query, key):
        _launch(_forward, tensors, bias, causal, (out,))
    else:
        mask = None if bias is None else bias[:, None, None]
        query, key, value = (tensor.transpose(1, 2) for tensor in tensors)
        out.copy_(F.scaled_dot_product_attention(query, key, value, mask, is_causal=causal).transpose(1, 2))
    return out


@torch.library.custom_op("regard::short_attention_backward", mutates_args=())
def short_attention_backward(
    d_out: Tensor, inputs: Sequence[Tensor], bias: Tensor | None, causal: bool
) -> list[Tensor]:
    query, key, value = tensors = _three(inputs)
    d_inputs = _like(inputs)
    if _fits(query, key):
        _launch(_backward, tensors, bias, causal, (d_out.contiguous(), *_three(d_inputs)))
        return d_inputs
    # The same for sequences that are too long for the kernel.
    d_query, d_key, d_value = (tensor.transpose(1, 2) for tensor in _three(d_inputs))
    query, key, value, d_out = (tensor.transpose(1, 2) for tensor in (*tensors, d_out))
    weights = attention_weights(query, key, None if bias is None else bias[:, None, None] == 0, causal)
    d_value.copy_(weights.transpose(-2, -1) @ d_out)
    d_weights = d_out @ value.transpose(-2, -1)
    d_scores = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True)) * query.shape[-1] ** -0.5
    d_query.copy_(d_scores @ key)
    d_key.copy_(d_scores.transpose(-2, -1) @ query)
    return d_inputs


def _three(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    return inputs[0].unbind(2) if len(inputs) == 1 else inputs


def _fits(query: Tensor, key: Tensor) -> bool:
    return max(query.shape[1], key.shape[1]) <= MOST


def _launch(kernel: Any, tensors: Sequence[Tensor], bias: Tensor | None, causal: bool, others: Any) -> None:
    query, key, _ = tensors
    sentences, queries, heads, width = query.shape
    size = max(32, triton.next_power_of_2(max(queries, key.shape[1])))
    kernel[(sentences * heads,)](
        *tensors, query if bias is None else bias.contiguous(), *others,
        *(tensor.stride()[:3] for tensor in (*tensors, *others)),
        heads, queries, key.shape[1], width**-0.5, int(bias is not None), int(causal), size, width,
        num_warps=4 if size > 32 else 2,
    )  # fmt: skip


def _like(inputs: Sequence[Tensor]) -> list[Tensor]:
    return [torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor in inputs]


@short_attention.register_fake
def _(inputs, bias, causal):
    return _like(_three(inputs)[:1])[0]


@short_attention_backward.register_fake
def _(d_out, inputs, bias, causal):
    return _like(inputs)


def _save(ctx: Any, inputs: Any, output: Tensor) -> None:
    tensors, bias, ctx.causal = inputs
    ctx.save_for_backward(bias, *tensors)


def _backward_of(ctx: Any, d_out: Tensor) -> Any:
    bias, *inputs = ctx.saved_tensors
    return short_attention_backward(d_out, inputs, bias, ctx.causal), None, None


short_attention.register_autograd(_backward_of, setup_context=_save)


@triton.jit(do_not_specialize=["queries", "keys", "has_bias", "bias_b", "bias_q"])
def _few(
    q, k, v, bias, out, q_strides, k_strides, v_strides, out_strides, bias_b, bias_q,
    heads, queries, keys, scale, has_bias, SIZE: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    row, column = tl.arange(0, SIZE), tl.arange(0, WIDTH)
    query = _read(q, q_strides, head, heads, queries, row, column)
    bias += (head // heads).to(tl.int64) * bias_b
    # Online softmax over the keys so far: highest score, sum of weights, and weighted sum of values.
    most = tl.full([SIZE], -float("inf"), tl.float32)
    total = tl.zeros([SIZE], tl.float32)
    mixed = tl.zeros([SIZE, WIDTH], tl.float32)
    for start in range(0, keys, BLOCK):
        position = start + tl.arange(0, BLOCK)
        key = _read(k, k_strides, head, heads, keys, position, column)
        value = _read(v, v_strides, head, heads, keys, position, column)
        known = (row[:, None] < queries) & (position[None, :] < keys) & (has_bias != 0)
        biases = tl.load(bias + row[:, None] * bias_q + position[None, :], mask=known, other=0.0)
        scores = tl.dot(query, tl.trans(key)) * scale + biases.to(tl.float32)
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


def few_queries(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """Attention of a few queries (B T H K) to keys and values (B S H K), without gradients. `bias` fits (B T S)."""
    sentences, queries, heads, width = query.shape
    keys = key.shape[1]
    biases = query if bias is None else bias.expand(sentences, queries, keys)
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    _few[(sentences * heads,)](
        query, key, value, biases, out,
        *(tensor.stride()[:3] for tensor in (query, key, value, out)), *biases.stride()[:2],
        heads, queries, keys, width**-0.5, int(bias is not None), FEW, BLOCK, width, num_warps=1,
    )  # fmt: skip
    return out
