"""Dropout (Srivastava et al. 2014), with a cheaper mask on a CPU.

PyTorch draws the mask there on one core, with a random number of its own for every activation: 8 % of a training step
of a small Transformer. Here one 64-bit random number decides about four activations.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

LEVELS = 2**16
"""A share is rounded to a multiple of 1 / LEVELS; what is kept is scaled by the rounded share, so its mean is exact."""


class Dropout(nn.Module):
    """Sets a share of the activations to zero in training and scales the others up."""

    def __init__(self, share: float):
        super().__init__()
        self.share = share

    def forward(self, x: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
        if not self.training or not self.share:
            return x
        return x * _mask(x, self.share) if x.device.type == "cpu" else F.dropout(x, self.share)

    def extra_repr(self) -> str:
        return f"{self.share}"


def _mask(x: Tensor, share: float) -> Tensor:
    dropped = min(max(round(share * LEVELS), 1), LEVELS - 1)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)  # uniform in -LEVELS / 2 .. LEVELS / 2 - 1
    return torch.ge(bits, dropped - LEVELS // 2, out=torch.empty_like(x.detach())).mul_(LEVELS / (LEVELS - dropped))
