"""Triton kernel for label-smoothed cross-entropy and its gradient: reads each row of logits twice, writes it once.

Imported only where layers are compiled, because it needs Triton.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.types import PAD


@triton.jit
def _rows(logits, target, losses, smoothing, IGNORED: tl.constexpr, WORDS: tl.constexpr, SIZE: tl.constexpr):
    """One program per position. Its logits become softmax - (1 - s) * [target] - s / words, or 0 for padding."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * WORDS
    word = tl.load(target + row)
    chosen = tl.load(logits + word).to(tl.float32)
    columns = tl.arange(0, SIZE)
    lowest = -1e30
    # Online softmax: running maximum and denominator for each of SIZE columns.
    most, total, sum_ = tl.full([SIZE], lowest, tl.float32), tl.zeros([SIZE], tl.float32), tl.zeros([SIZE], tl.float32)
    for start in range(0, WORDS, SIZE):
        inside = start + columns < WORDS
        x = tl.load(logits + start + columns, mask=inside, other=lowest).to(tl.float32)
        higher = tl.maximum(most, x)
        total = total * tl.exp(most - higher) + tl.exp(x - higher)
        sum_ += tl.where(inside, x, 0.0)
        most = higher
    top = tl.max(most, 0)
    whole = top + tl.log(tl.sum(total * tl.exp(most - top), 0))
    real = tl.where(word == IGNORED, 0.0, 1.0)
    loss = (1 - smoothing) * (whole - chosen) + smoothing * (whole - tl.sum(sum_, 0) / WORDS)
    tl.store(losses + row, loss * real)
    for start in range(0, WORDS, SIZE):
        inside = start + columns < WORDS
        x = tl.load(logits + start + columns, mask=inside, other=lowest).to(tl.float32)
        gradient = tl.exp(x - whole) - smoothing / WORDS - tl.where(start + columns == word, 1 - smoothing, 0.0)
        tl.store(logits + start + columns, (gradient * real).to(logits.dtype.element_ty), mask=inside)


def to_gradient(logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """The summed loss of some positions; overwrites their logits (N V) with the gradient."""
    losses = torch.empty(len(logits), device=logits.device)
    words = logits.shape[1]
    size = min(4096, triton.next_power_of_2(words))
    _rows[(len(logits),)](logits, target, losses, smoothing, PAD, words, size, num_warps=8)
    return losses.sum()
