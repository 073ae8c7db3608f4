"""The loss of predicting tokens: label-smoothed cross-entropy, summed over the real ones (Vaswani et al. 2017, 5.4).

Once as the formula, of logits, and once for training, of what logits are made from: over a large vocabulary they are
the largest thing a step makes, so they are made for some positions at a time and turned into their gradient in place.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.layers import compiling
from regard.layers.precision import computed_in
from regard.types import PAD

ROWS = {"cpu": 512, "cuda": 4096}
"""Positions at a time: as few as keep the products efficient."""


def token_loss(logits: Float[Tensor, "B T V"], wanted: Int[Tensor, "B T"], smoothing: float = 0.0) -> Float[Tensor, ""]:
    """(1 - s) * -log p(wanted) + s * mean over the vocabulary of -log p, summed over positions that are not padding."""
    return F.cross_entropy(
        logits.flatten(0, 1).float(), wanted.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )


def projected_loss(
    hidden: Float[Tensor, "B T D"], weight: Float[Tensor, "V D"], wanted: Int[Tensor, "B T"], smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """`token_loss` of the logits hidden @ weight^T, without ever holding all of them."""
    return _ProjectedLoss.apply(hidden.flatten(0, 1), weight, wanted.flatten(), smoothing)  # type: ignore[no-untyped-call]


class _ProjectedLoss(torch.autograd.Function):
    """Softmax minus smoothed target is the gradient of the logits, so all gradients are made on the way forward."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, wanted: Tensor, smoothing: float) -> Tensor:
        device = hidden.device.type
        dtype = computed_in(hidden)
        exact = dtype if dtype == torch.float64 else torch.float32
        needed = any(ctx.needs_input_grad[:2])
        fused = needed and compiling.active and device == "cuda"
        # Every word of the vocabulary is wanted a little: (p - even) is the gradient, or p where nothing is smoothed.
        # It is made as even * (p / even - 1), which is exact also where p is nearly even, as in the end most are.
        even = smoothing / len(weight)
        scale = 1.0 if fused else even or 1.0
        if fused:
            from regard.layers.loss_kernel import to_gradient
        with torch.autocast(device, enabled=False):
            real = (wanted != PAD)[:, None]
            inward, table = hidden.to(dtype) * real, weight.to(dtype)
            mean_word = table.mean(0, dtype=exact)
            total = torch.zeros((), device=hidden.device)
            d_inward, d_weight = torch.empty_like(inward), torch.zeros_like(weight)
            size = ROWS.get(device, 1024)
            for rows in (slice(start, start + size) for start in range(0, len(inward), size)):
                chosen = wanted[rows, None]
                logits = inward[rows] @ table.T
                if fused:
                    total += to_gradient(logits, wanted[rows], smoothing)
                    torch.mm(logits, table, out=d_inward[rows])
                    d_weight += logits.T @ inward[rows]
                    continue
                log_p = logits.log_softmax(-1, dtype=exact)
                found = log_p.gather(1, chosen)
                loss = (smoothing - 1) * found
                if smoothing:  # the mean of all log p is that of the logits, less what the softmax took off each
                    taken_off = logits.gather(1, chosen).to(exact) - found
                    loss -= smoothing * ((inward[rows].to(exact) @ mean_word)[:, None] - taken_off)
                total += (loss * real[rows]).sum()
                if needed:
                    gradient = torch.expm1(log_p.sub_(math.log(even)), out=logits) if even else log_p.exp_().to(dtype)
                    gradient.scatter_add_(1, chosen, gradient.new_full(chosen.shape, (smoothing - 1) / scale))
                    torch.mm(gradient, table, out=d_inward[rows])
                    if dtype == d_weight.dtype:
                        d_weight.addmm_(gradient.T, inward[rows])
                    else:
                        d_weight += gradient.T @ inward[rows]
        if needed:
            ctx.save_for_backward((d_inward * (scale * real)).to(hidden.dtype), d_weight.mul_(scale))
        return total

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> Any:
        d_hidden, d_weight = ctx.saved_tensors
        return d_hidden * scale, d_weight * scale, None, None
