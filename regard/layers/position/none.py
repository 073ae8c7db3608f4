"""No positions: for networks that read in order anyway, and to study attention without them."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.layers.position._base import Position

__all__ = ["NoPosition"]


class NoPosition(Position):
    """Zero for every position."""

    cuda_graphable: ClassVar[bool] = True

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, positions: Int[Tensor, "T"]) -> Float[Tensor, "T D"]:
        return torch.zeros(positions.shape[0], self.width, device=positions.device)
