"""Sines and cosines of many wavelengths (Vaswani et al. 2017, 3.5). Computed, not stored: no length is too long."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

__all__ = ["Sinusoidal"]


class Sinusoidal(nn.Module):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same."""

    limit: int | None = None

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, positions: Int[Tensor, "T"]) -> Float[Tensor, "T D"]:
        pairs = torch.arange(0, self.width, 2, device=positions.device)
        angles = positions[:, None] * torch.exp(pairs * (-math.log(10000.0) / self.width))
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)[:, : self.width]
