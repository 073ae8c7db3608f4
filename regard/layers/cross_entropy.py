"""Label-smoothed cross-entropy, summed over the real tokens (Vaswani et al. 2017, 5.4).

Twice: as the formula, from logits, and for training, from hidden states and output weight. With a large vocabulary the
logits are the largest tensor of a step, so they are computed for some positions at a time and turned into their
gradient in place.
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
"""Positions per chunk: as few as keep the products efficient."""
NEVER = -100.0
"""An output bias below this excludes a token, and counts as this: label smoothing would make a loss of its -1e9."""


def token_loss(logits: Float[Tensor, "B T V"], target: Int[Tensor, "B T"], smoothing: float = 0.0) -> Float[Tensor, ""]:
    """(1 - s) * -log p(target) + s * mean over the vocabulary of -log p, summed over positions that are not padding."""
    return F.cross_entropy(
        logits.flatten(0, 1).float(), target.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )


def projected_loss(
    hidden: Float[Tensor, "B T D"],
    weight: Float[Tensor, "V D"],
    target: Int[Tensor, "B T"],
    smoothing: float = 0.0,
    bias: Float[Tensor, "V"] | None = None,
) -> Float[Tensor, ""]:
    """`token_loss` of the logits hidden @ weight^T + bias, without storing all of them."""
    if bias is not None:  # one more column of the weight, for an input that is always 1
        hidden = torch.cat([hidden, torch.ones_like(hidden[..., :1])], -1)
        weight = torch.cat([weight, bias.clamp(min=NEVER)[:, None]], 1)
    return _ProjectedLoss.apply(hidden.flatten(0, 1), weight, target.flatten(), smoothing)  # type: ignore[no-untyped-call]


class _ProjectedLoss(torch.autograd.Function):
    """The gradient of the logits is softmax minus smoothed target, so `forward` computes all gradients."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> Tensor:
        device = hidden.device.type
        dtype = computed_in(hidden)
        exact = dtype if dtype == torch.float64 else torch.float32
        needed = any(ctx.needs_input_grad[:2])
        fused = needed and compiling.active and device == "cuda"
        # With smoothing every word has a target of at least `even`: the gradient is p - even. It is computed as
        # even * (p / even - 1), which is exact also where p is close to even, as most are in the end.
        even = smoothing / len(weight)
        scale = 1.0 if fused else even or 1.0
        if fused:
            from regard.layers.loss_kernel import to_gradient
        with torch.autocast(device, enabled=False):
            real = (target != PAD)[:, None]
            inward, table = hidden.to(dtype) * real, weight.to(dtype)
            mean_word = table.mean(0, dtype=exact)
            total = torch.zeros((), device=hidden.device)
            d_inward, d_weight = torch.empty_like(inward), torch.zeros_like(weight)
            size = ROWS.get(device, 1024)
            # One buffer for all chunks: on a CPU, fresh memory for each would cost thousands of page faults.
            buffer = table.new_empty(min(size, len(inward)), len(table))
            log_buffer = buffer if fused else table.new_empty(buffer.shape, dtype=exact)
            for rows in (slice(start, start + size) for start in range(0, len(inward), size)):
                chosen = target[rows, None]
                logits = torch.mm(inward[rows], table.T, out=buffer[: len(chosen)])
                if fused:
                    total += to_gradient(logits, target[rows], smoothing)
                    torch.mm(logits, table, out=d_inward[rows])
                    d_weight += logits.T @ inward[rows]
                    continue
                log_p = torch.log_softmax(logits, -1, dtype=exact, out=log_buffer[: len(chosen)])
                found = log_p.gather(1, chosen)
                loss = (smoothing - 1) * found
                if smoothing:  # the mean of all log p is the mean logit minus the log of the softmax's denominator
                    log_sum = logits.gather(1, chosen).to(exact) - found
                    loss -= smoothing * ((inward[rows].to(exact) @ mean_word)[:, None] - log_sum)
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
