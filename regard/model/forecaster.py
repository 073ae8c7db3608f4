"""A forecaster: a stem and an encoder read what was, and a head says all of what comes next at once."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.pooling import Pooling
from regard.types import Batch, LossSum, Memory

__all__ = ["Forecaster"]

HEADS = ("last", "mean", "flat")
CENTRES = ("last", "mean", "none")


class Forecaster(nn.Module):
    """y = W states + b, for `horizon` steps of all columns, in the scaled space.

    `head` is what W sees: the last state, the mean of the states, or all states one after the other (flat).
    `centre` takes off each window what its level is, and adds it to the forecast: its last value (NLinear, Zeng et al.
    2023), or its mean with its spread, which divides (RevIN, Kim et al. 2022, without the learned scale).
    `apart` sends each column through the same network alone (Nie et al. 2023): more to learn from, less to overfit.
    """

    def __init__(
        self,
        stem: nn.Module,
        encoder: nn.Module,
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
        """How many go through the network together."""
        self.places = -(-window // getattr(stem, "patch", 1)) if head == "flat" else 0
        """How many vectors the stem makes of a window, where the head must know it."""
        self.pooling = Pooling(head) if head != "flat" else None
        self.dropout = nn.Dropout(head_dropout)
        width: int = encoder.width  # type: ignore[assignment]
        self.head = nn.Linear(width * max(1, self.places), horizon * self.columns)

    @staticmethod
    def tells(settings: dict[str, Any]) -> dict[str, int]:
        """What its stem is told instead of what the data say: of columns that go apart, it sees one at a time."""
        return {"features": 1} if settings["apart"] else {}

    def forward(self, source: Float[Tensor, "B S F"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B H F"]:
        """The next `horizon` values of every column."""
        return self._forecast(source, mask)[0]

    def loss(self, batch: Batch) -> LossSum:
        """The squared error, averaged over columns; a unit is a step that is wanted."""
        values, memory = self._forecast(batch.source, batch.source_mask)
        error = (values.float() - batch.target).square().mean(-1)
        total = error.masked_fill(~batch.target_mask, 0.0).sum()
        if memory.cost is not None and self.training:
            total = total + memory.cost.sum()
        return LossSum(total, batch.units)

    def _forecast(self, source: Tensor, mask: Tensor) -> tuple[Tensor, Memory]:
        level, scale = self._level(source, mask)
        x = (source - level) / scale
        rows, features = len(x), x.shape[2]
        if self.apart:  # (B, S, F) -> (B F, S, 1)
            x = x.transpose(1, 2).flatten(0, 1)[..., None]
            mask = mask.repeat_interleave(features, 0)
        memory = self.encoder(*self.stem(x, mask))
        values = self.head(self.dropout(self._seen(memory)))
        if self.apart:
            values = values.view(rows, features, self.horizon).transpose(1, 2)
        else:
            values = values.view(rows, self.horizon, features)
        return values * scale + level, memory

    def _seen(self, memory: Memory) -> Tensor:
        if self.pooling is not None:
            return self.pooling(memory)
        states = memory.states.masked_fill(~memory.mask[..., None], 0.0)[:, : self.places]
        missing = self.places - states.shape[1]
        return nn.functional.pad(states, (0, 0, 0, missing)).flatten(1)

    def _level(self, source: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """What to take off each window and divide it by, (B, 1, F)."""
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
