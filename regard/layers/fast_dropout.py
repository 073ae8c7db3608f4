"""Dropout with a cheaper mask, for training on a CPU.

PyTorch draws the mask there on one core, one random number per activation: 7 % of a training step of a small
Transformer. Here one 64-bit random number decides about four activations.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

LEVELS = 2**16
"""p is rounded to a multiple of 1 / LEVELS; the scale is that of the rounded p, so the mean stays exact."""


class FastDropout(nn.Dropout):
    """nn.Dropout: in training each activation is zero with probability p, and the others are scaled up."""

    def forward(self, x: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
        if not self.training or not 0 < self.p < 1 or x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p, self.training)
        return x * _mask(x, self.p)


def replace_dropouts(model: nn.Module) -> nn.Module:
    """The model with fast dropout layers, for training on a CPU."""
    for parent in model.modules():
        for name, child in parent.named_children():
            if type(child) is nn.Dropout:
                setattr(parent, name, FastDropout(child.p).train(child.training))
    return model


@torch.no_grad()
def _mask(x: Tensor, p: float) -> Tensor:
    dropped = min(round(p * LEVELS), LEVELS - 1)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    random = words.view(torch.int16)[: x.numel()].view(x.shape)  # uniform in -LEVELS / 2 .. LEVELS / 2 - 1
    return torch.ge(random, dropped - LEVELS // 2, out=torch.empty_like(x)).mul_(LEVELS / (LEVELS - dropped))
