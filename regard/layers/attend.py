"""softmax(Q K^T / sqrt(d)) V: the one place where attention is computed (Vaswani et al. 2017, equation 1).

Three implementations: PyTorch's fused kernel; the formula spelled out, for an observer of the weights; and on a GPU our
own Triton kernels for short sequences (attention_kernels.py). A mask is boolean (True = attend) or an additive bias (0
or -inf).
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from regard.layers import compiling
from regard.layers.observable import Observer

Mask = Bool[Tensor, "..."] | Float[Tensor, "..."] | None


def attention_weights(
    query: Float[Tensor, "*A T K"],
    key: Float[Tensor, "*A S K"],
    mask: Bool[Tensor, "*M"] | None,
    causal: bool = False,
) -> Float[Tensor, "*A T S"]:
    """softmax(Q K^T / sqrt(d)). Masked positions weigh exactly 0, also where all are masked."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if causal:
        past = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        mask = past if mask is None else mask & past
    return masked_softmax(scores, mask)


def masked_softmax(scores: Float[Tensor, "*A T S"], mask: Mask) -> Float[Tensor, "*A T S"]:
    if mask is None:
        return scores.softmax(-1, dtype=torch.float32).to(scores.dtype)
    mask = as_boolean(mask)
    weights = torch.where(mask, scores, -torch.inf).softmax(-1, dtype=torch.float32)
    return torch.where(mask, weights, 0.0).to(scores.dtype)  # a row of only -inf would be NaN


def attention_bias(mask: Bool[Tensor, "*M"], dtype: torch.dtype) -> Float[Tensor, "*M"]:
    """The mask as the bias that the fused kernel adds to the scores: computed once for all layers of a stack."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)


def as_boolean(mask: Bool[Tensor, "*M"] | Float[Tensor, "*M"]) -> Bool[Tensor, "*M"]:
    """A mask or a bias as a mask."""
    return mask if mask.dtype == torch.bool else mask == 0


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
    weights = attention_weights(query, key, None if mask is None else as_boolean(mask), causal)
    observer("weights", weights)
    return F.dropout(weights, dropout) @ value


def attend_by_kernel(
    inputs: Sequence[Tensor], mask: Tensor | None, causal: bool, dropout: float, observer: Observer | None
) -> Float[Tensor, "B T H K"] | None:
    """Attention by our Triton kernels (attention_kernels.py) where they apply and are faster; else None.

    `inputs` are queries, keys and values (B T H K), or the one tensor (B T 3 H K) that holds all three.
    """
    query, key = inputs[0], inputs[-1]
    if (
        not query.is_cuda
        or query.dtype not in (torch.bfloat16, torch.float16)
        or query.shape[-1] not in (16, 32, 64, 128)
        or (mask is not None and mask.dtype != query.dtype)
        or dropout
        or observer is not None
    ):
        return None
    if torch.is_grad_enabled():
        for_keys = mask is None or (mask.ndim == 3 and mask.shape[1] == 1)
        if compiling.active and for_keys and query.shape[1] < 256 and key.shape[1] < 256:
            return torch.ops.regard.short_attention(inputs, None if mask is None else mask[:, 0], causal)
    elif len(query) >= 8 and query.shape[1] <= 16 and len(inputs) == 3 and not causal and (kernels := _kernels()):
        return kernels.few_queries(*inputs, mask)
    return None


@functools.cache
def _kernels() -> Any:
    """The kernels, or None where Triton or the compiler that it needs is missing."""
    try:
        from regard.layers import attention_kernels

        one = torch.zeros(1, 1, 1, 64, dtype=torch.bfloat16, device="cuda")
        attention_kernels.few_queries(one, one, one, None)
        return attention_kernels
    except Exception as error:
        logging.getLogger("regard").info("regard: no kernels for attention: %s", error)
        return None
