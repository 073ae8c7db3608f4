"""softmax(Q K^T / sqrt(d)) V: the one place where attention is computed (Vaswani et al. 2017, equation 1).

Three ways to the same result: the fused kernel, the formula spelled out for those who want to see the weights, and on a
GPU kernels of our own for what sentences need (attention_kernels.py).
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from regard.layers import compiling


def attention_weights(
    query: Float[Tensor, "*A T K"],
    key: Float[Tensor, "*A S K"],
    mask: Bool[Tensor, "*M"] | None,
    causal: bool = False,
) -> Float[Tensor, "*A T S"]:
    """How much each query looks at each key. What may not be seen weighs exactly 0, also where nothing may be seen."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if causal:
        past = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        mask = past if mask is None else mask & past
    return masked_softmax(scores, mask)


def masked_softmax(scores: Float[Tensor, "*A T S"], mask: Bool[Tensor, "*M"] | None) -> Float[Tensor, "*A T S"]:
    if mask is None:
        return scores.softmax(-1, dtype=torch.float32).to(scores.dtype)
    weights = torch.where(mask, scores, -torch.inf).softmax(-1, dtype=torch.float32)
    return torch.where(mask, weights, 0.0).to(scores.dtype)  # a row of -inf only would be NaN


def as_cost(mask: Bool[Tensor, "*M"], dtype: torch.dtype) -> Float[Tensor, "*M"]:
    """The mask as the fused kernel adds it to scores: computed once for a whole stack, not in each of its layers."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)


def mix(
    scores: Float[Tensor, "B T S"],
    values: Float[Tensor, "B S M"],
    mask: Bool[Tensor, "*N"] | None,
    watcher: Callable[[str, Tensor], None] | None,
) -> Float[Tensor, "B T M"]:
    """The values mixed by the softmax of their scores: what attentions with one head end with."""
    weights = masked_softmax(scores, mask)
    if watcher:
        watcher("weights", weights[:, None])
    return weights.to(values.dtype) @ values


def attend(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S K"],
    mask: Bool[Tensor, "*M"] | Float[Tensor, "*M"] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    watcher: Callable[[str, Tensor], None] | None = None,
) -> Float[Tensor, "B H T K"]:
    """Mixes the values by the weights. `causal`, for as many keys as queries, hides from position t all after t.

    The mask says where one may look; or it is what that costs: 0, or -inf where one may not.
    """
    if watcher is None:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal)
    seen = mask if mask is None or mask.dtype == torch.bool else mask == 0
    weights = attention_weights(query, key, seen, causal)
    watcher("weights", weights)
    return F.dropout(weights, dropout) @ value


def attend_by_kernel(
    given: Sequence[Tensor], mask: Tensor | None, causal: bool, dropout: float, watcher: object
) -> Float[Tensor, "B T H K"] | None:
    """By the kernels for sentences (attention_kernels.py), where this is what they can do and they pay; else None.

    `given` are queries, keys and values (B T H K), or the one projection (B T 3 H K) that made them all.
    """
    query, key = given[0], given[-1]
    if (
        not query.is_cuda
        or query.dtype not in (torch.bfloat16, torch.float16)
        or query.shape[-1] not in (16, 32, 64, 128)
        or (mask is not None and mask.dtype != query.dtype)
        or dropout
        or watcher is not None
    ):
        return None
    if torch.is_grad_enabled():
        for_keys = mask is None or (mask.ndim == 3 and mask.shape[1] == 1)
        if compiling.active and for_keys and query.shape[1] < 256 and key.shape[1] < 256:
            return torch.ops.regard.short_attention(given, None if mask is None else mask[:, 0], causal)
    elif len(query) >= 8 and query.shape[1] <= 16 and len(given) == 3 and not causal and (kernels := _kernels()):
        return kernels.few_queries(*given, mask)
    return None


@functools.cache
def _kernels() -> Any:
    """None where Triton is missing, or the compiler that it needs."""
    try:
        from regard.layers import attention_kernels

        one = torch.zeros(1, 1, 1, 64, dtype=torch.bfloat16, device="cuda")
        attention_kernels.few_queries(one, one, one, None)
        return attention_kernels
    except Exception as error:
        logging.getLogger("regard").info("regard: no kernels for attention: %s", error)
        return None
