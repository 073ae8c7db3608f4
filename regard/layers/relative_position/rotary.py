"""Rotary positions (RoPE; Su et al. 2021): queries and keys turn by angles that grow with their position, so that their
dot product depends on their distance alone."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import UserError
from regard.layers.attend import Rotation
from regard.layers.relative_position._base import RelativePosition

__all__ = ["Rotary"]


class Rotary(RelativePosition):
    """Columns i and K/2 + i of a head of K turn by pos * r_i, where r_i = base^(-2i/K).

    The paper pairs columns 2i and 2i + 1; this is the order of Llama, and the same model with permuted weights. For
    texts longer than those it was trained on, `factor` slows rotations: all of them, or with `original`, the length of
    those texts, only such that turn fewer than `high` times within it; below `low` times fully (Llama 3.1).
    """

    adds: ClassVar[bool] = False
    rotates: ClassVar[bool] = True
    cuda_graphable: ClassVar[bool] = True

    def __init__(
        self,
        head_width: int = 64,
        base: float = 10000.0,
        factor: float = 1.0,
        original: int = 0,
        low: float = 1.0,
        high: float = 4.0,
    ):
        super().__init__()
        if head_width % 2:
            raise UserError(f"model.relative_position: rotary needs heads of an even width, not {head_width}")
        if original and high <= low:
            raise UserError(f"model.relative_position.high: {high:g} is not above low = {low:g}")
        self.head_width, self.base, self.factor = head_width, base, factor
        self.original, self.low, self.high = original, low, high
        self._rates: Tensor | None = None  # of each column, once the device is known

    def forward(self, queries: Int[Tensor, "T"], keys: Int[Tensor, "S"]) -> None:
        return None

    def rotation(self, positions: Int[Tensor, "T"]) -> Rotation:
        if self._rates is None or self._rates.device != positions.device:
            self._rates = self.rates().to(positions.device).repeat(2)
        angles = positions[:, None] * self._rates
        return angles.cos(), angles.sin()

    def rates(self) -> Tensor:
        """r_i in radians per position, (K/2,)."""
        with torch.device("cpu"):
            rates = 1.0 / self.base ** (torch.arange(0, self.head_width, 2).float() / self.head_width)
        if not self.original:
            return rates / self.factor
        turns = self.original * rates / (2 * math.pi)
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
        return kept * rates + (1 - kept) * rates / self.factor
