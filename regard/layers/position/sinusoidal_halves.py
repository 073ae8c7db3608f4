"""Sinusoidal positions with the sines in the first half and the cosines in the second, as in Marian and M2M-100."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import UserError
from regard.layers.position._base import Position

__all__ = ["SinusoidalHalves"]


class SinusoidalHalves(Position):
    """PE(pos, i) = sin((pos + offset) r_i), PE(pos, d/2 + i) = cos of the same, with rates r_i from 1 down.

    r_i = 10000^(-i / (d/2)) as in Marian. With `inclusive` the exponent is -i / (d/2 - 1), so that the last rate is
    1/10000 itself: M2M-100, which also counts from an `offset` of 2 (the id of its padding, and one).
    """

    cuda_graphable: ClassVar[bool] = True

    def __init__(self, width: int, offset: int = 0, inclusive: bool = False):
        super().__init__()
        if width % 2:
            raise UserError(f"model.position: sinusoidal_halves needs an even width, not {width}; use sinusoidal")
        self.columns, self.offset = width // 2, offset
        self.steps = max(1, self.columns - 1) if inclusive else self.columns
        self._rates: Tensor | None = None  # once the device is known

    def forward(self, positions: Int[Tensor, "T"]) -> Float[Tensor, "T D"]:
        if self._rates is None or self._rates.device != positions.device:
            numbers = torch.arange(self.columns, device=positions.device)
            self._rates = torch.exp(numbers * (-math.log(10000.0) / self.steps))
        angles = (positions + self.offset)[:, None] * self._rates
        return torch.cat([angles.sin(), angles.cos()], -1)
