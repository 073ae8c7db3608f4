"""softmax(Q K^T / sqrt(d)) V: the one place where attention is computed (Vaswani et al. 2017, equation 1).

Three implementations: PyTorch's fused kernel; the formula spelled out, for an observer of the weights; and on a GPU our
own Triton kernels for short sequences (attention_kernels.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from regard.layers.observable import Observer

Rotation = tuple[Float[Tensor, "T K"], Float[Tensor, "T K"]]
"""Cosine and sine of the angle by which each column of a head is rotated, by position (relative_position/rotary.py)."""
Mask = Bool[Tensor, "..."] | Float[Tensor, "..."] | None
"""Broadcastable to (B, T, S): boolean (True = attend) or an additive bias (0 or -inf). With relative positions a bias
(B, H, T, S) of any numbers, -inf where masked."""


def attention_weights(
    query: Float[Tensor, "*A T K"], key: Float[Tensor, "*A S K"], mask: Mask, causal: bool = False
) -> Float[Tensor, "*A T S"]:
    """softmax(Q K^T / sqrt(d)). Masked positions weigh exactly 0, also where all are masked."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None and mask.dtype != torch.bool:
        scores = scores + mask
    if causal:
        past = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        mask = past if mask is None else as_boolean(mask) & past
    return masked_softmax(scores, mask)


def masked_softmax(scores: Float[Tensor, "*A T S"], mask: Mask) -> Float[Tensor, "*A T S"]:
    if mask is None:
        return scores.softmax(-1, dtype=torch.float32).to(scores.dtype)
    mask = as_boolean(mask)
    weights = torch.where(mask, scores, -torch.inf).softmax(-1, dtype=torch.float32)
    return torch.where(mask, weights, 0.0).to(scores.dtype)  # a row of only -inf would be NaN


def attention_bias(
    mask: Bool[Tensor, "*M"], dtype: torch.dtype, relative: Float[Tensor, "H T S"] | None = None
) -> Float[Tensor, "..."]:
    """The mask, with what relative positions add, as the bias that the fused kernel adds to the scores: computed once
    for all layers of a stack."""
    if relative is not None:
        return relative.to(dtype).masked_fill(~mask[:, None], -torch.inf)
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)


def rotate(heads: Float[Tensor, "B T H K"], rotation: Rotation) -> Float[Tensor, "B T H K"]:
    """Column i of a head, together with column i + K/2, rotated by the angles of its position."""
    cosine, sine = (part[:, None].to(heads.dtype) for part in rotation)
    first, second = heads.chunk(2, dim=-1)
    return heads * cosine + torch.cat([-second, first], -1) * sine


def as_boolean(mask: Bool[Tensor, "*M"] | Float[Tensor, "*M"]) -> Bool[Tensor, "*M"]:
    """A mask or a bias as a mask."""
    return mask if mask.dtype == torch.bool else mask != -torch.inf


def weighted_sum(
    scores: Float[Tensor, "B T S"], values: Float[Tensor, "B S M"], mask: Mask, observer: Observer | None
) -> Float[Tensor, "B T M"]:
    """The sum of the values weighted by the softmax of their scores: the last step of attentions with one head."""
    weights = masked_softmax(scores, mask)
    if observer:
        observer("weights", weights[:, None])
    return weights.to(values.dtype) @ values


def dot_product_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S K"],
    mask: Mask = None,
    causal: bool = False,
    dropout: float = 0.0,
    observer: Observer | None = None,
) -> Float[Tensor, "B H T K"]:
    """Scaled dot-product attention. `causal`, for as many keys as queries, hides later positions."""
    if observer is None:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal)
    weights = attention_weights(query, key, mask, causal)
    observer("weights", weights)
    return F.dropout(weights, dropout) @ value


def attend_by_kernel(
    inputs: Sequence[Tensor], mask: Tensor | None, causal: bool, dropout: float, observer: Observer | None
) -> Float[Tensor, "B T H K"] | None:
    """Attention by our Triton kernels where they apply and are faster (short_attention.py); else None.

    `inputs` are queries, keys and values (B T H K), or the one tensor (B T 3 H K) that holds all three.
    """
    if not inputs[0].is_cuda or dropout or observer is not None:
        return None
    from regard.layers.short_attention import short_attention

    return short_attention(inputs, mask, causal)
