"""Sinusoidal positions (Vaswani et al. 2017, 3.5): computed, not stored, so there is no length limit."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.layers.position._base import Position

__all__ = ["Sinusoidal"]


class Sinusoidal(Position):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same."""

    cuda_graphable: ClassVar[bool] = True

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self._rates: Tensor | None = None  # 1 / 10000^(2i/d) for each column, once the device is known

    def forward(self, positions: Int[Tensor, "T"]) -> Float[Tensor, "T D"]:
        if self._rates is None or self._rates.device != positions.device:
            self._columns = torch.arange(self.width, device=positions.device)
            self._rates = torch.exp((self._columns // 2 * 2) * (-math.log(10000.0) / self.width))
        angles = positions[:, None] * self._rates
        return torch.where(self._columns % 2 == 0, angles.sin(), angles.cos())
