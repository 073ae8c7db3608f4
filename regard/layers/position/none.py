"""No positions at all: for networks that read in order anyway, and to see what attention is without them."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

__all__ = ["NoPosition"]


class NoPosition(nn.Module):
    """Zero for every position."""

    limit: int | None = None

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, positions: Int[Tensor, "T"]) -> Float[Tensor, "T D"]:
        return torch.zeros(len(positions), self.width, device=positions.device)
