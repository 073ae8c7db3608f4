"""A forecaster: stem and encoder read the past window, and a linear head predicts the whole horizon at once."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.encoder._base import Encoder
from regard.errors import UserError
from regard.layers.pooling import Pooling
from regard.model._base import Model
from regard.stem._base import Stem
from regard.types import Batch, LossSum, Memory

__all__ = ["Forecaster"]

HEADS = ("last", "mean", "flat")
CENTRES = ("last", "mean", "none")


class Forecaster(Model):
    """y = W states + b, for `horizon` steps of all columns, in the scaled space.

    `head` is the input of W: the last state, the mean of the states, or all states concatenated (flat).
    `centre` normalises each window and undoes it on the forecast: it subtracts the last value (NLinear, Zeng et al.
    2023), or the mean and divides by the standard deviation (RevIN, Kim et al. 2022, without the learned scale).
    `apart` sends each column through the same network alone (channel independence, Nie et al. 2023).
    """

    def __init__(
        self,
        stem: Stem,
        encoder: Encoder,
        features: int,
        window: int = 336,
        horizon: int = 96,
        head: str = "last",
        centre: str = "last",
        apart: bool = True,
        head_dropout: float = 0.0,
    ):
        super().__init__()
        for name, value, known in (("head", head, HEADS), ("centre", centre, CENTRES)):
            if value not in known:
                raise UserError(f"model.{name}: no '{value}'; use {', '.join(known)}")
        self.stem, self.encoder = stem, encoder
        self.window, self.horizon, self.centre, self.apart = window, horizon, centre, apart
        self.columns = 1 if apart else features
        """Columns that go through the network together."""
        self.positions = -(-window // stem.patch) if head == "flat" else 0
        """Vectors that the stem makes of a window, for the flat head."""
        self.pooling = Pooling(head) if head != "flat" else None
        self.dropout = nn.Dropout(head_dropout)
        self.head = nn.Linear(encoder.width * max(1, self.positions), horizon * self.columns)

    @staticmethod
    def part_sizes(settings: dict[str, Any]) -> dict[str, int]:
        """With `apart` the stem sees one column at a time."""
        return {"features": 1} if settings["apart"] else {}

    def forward(self, source: Float[Tensor, "B S F"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B H F"]:
        """The next `horizon` values of every column."""
        return self._forecast(source, mask)[0]

    def loss(self, batch: Batch) -> LossSum:
        """The squared error, averaged over columns; a unit is a step of the horizon."""
        values, memory = self._forecast(batch.source, batch.source_mask)
        error = (values.float() - batch.target).square().mean(-1)
        total = error.masked_fill(~batch.target_mask, 0.0).sum()
        return LossSum(self.with_ponder_cost(total, memory.ponder_cost), batch.units)

    def _forecast(self, source: Tensor, mask: Tensor) -> tuple[Tensor, Memory]:
        level, scale = self._level(source, mask)
        x = (source - level) / scale
        rows, features = len(x), x.shape[2]
        if self.apart:  # (B, S, F) -> (B F, S, 1)
            x = x.transpose(1, 2).flatten(0, 1)[..., None]
            mask = mask.repeat_interleave(features, 0)
        memory = self.encoder(*self.stem(x, mask))
        values = self.head(self.dropout(self._pooled(memory)))
        if self.apart:
            values = values.view(rows, features, self.horizon).transpose(1, 2)
        else:
            values = values.view(rows, self.horizon, features)
        return values * scale + level, memory

    def _pooled(self, memory: Memory) -> Tensor:
        if self.pooling is not None:
            return self.pooling(memory)
        states = memory.states.masked_fill(~memory.mask[..., None], 0.0)[:, : self.positions]
        missing = self.positions - states.shape[1]
        return nn.functional.pad(states, (0, 0, 0, missing)).flatten(1)

    def _level(self, source: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """What to subtract from each window and to divide it by, (B, 1, F)."""
        one = source.new_ones(())
        if self.centre == "none":
            return torch.zeros_like(one), one
        if self.centre == "last":
            last = mask.sum(1).clamp(min=1) - 1
            return source[torch.arange(len(source), device=source.device), last][:, None], one
        real = mask[..., None].to(source.dtype)
        count = real.sum(1, keepdim=True).clamp(min=1)
        mean = (source * real).sum(1, keepdim=True) / count
        variance = ((source - mean).square() * real).sum(1, keepdim=True) / count
        return mean, (variance + 1e-5).sqrt()
