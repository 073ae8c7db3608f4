"""Chooses a Triton kernel for short sequences on a GPU (attention_kernels.py), where one applies and is faster."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.layers import compiling


def short_attention(inputs: Sequence[Tensor], mask: Tensor | None, causal: bool) -> Float[Tensor, "B T H K"] | None:
    """As `attend_by_kernel`, for tensors on a GPU: for compiled layers in training, for few queries in decoding."""
    query, key = inputs[0], inputs[-1]
    if (
        query.dtype not in (torch.bfloat16, torch.float16)
        or query.shape[-1] not in (16, 32, 64, 128)
        or (mask is not None and (mask.dtype != query.dtype or mask.ndim > 3))  # relative positions: a mask per head
    ):
        return None
    if torch.is_grad_enabled():
        for_keys = mask is None or mask.shape[:-1] == (len(query), 1)
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
