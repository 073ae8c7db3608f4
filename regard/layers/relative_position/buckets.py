"""Relative positions in buckets (T5; Raffel et al. 2020, 2.1): a learnt number for each head and bucket."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.relative_position._base import RelativePosition

__all__ = ["Buckets"]


class Buckets(RelativePosition):
    """The first half of the buckets holds one distance each, the others grow with its logarithm, up to `distance`.

    All greater distances share the last. A causal table counts backwards only; else half of the buckets is for later
    keys.
    """

    cuda_graphable: ClassVar[bool] = True

    def __init__(self, heads: int, causal: bool = False, buckets: int = 32, distance: int = 128):
        super().__init__()
        self.causal, self.distance = causal, distance
        self.each = buckets if causal else buckets // 2
        """The buckets of one direction."""
        least = 2 if causal else 4
        if buckets < least or buckets % 2:
            raise UserError(
                f"model.relative_position.buckets: wants an even number of at least {least}, given {buckets}"
            )
        if distance <= self.each // 2:
            raise UserError(
                f"model.relative_position.distance: {distance} is within the buckets that hold one distance each; "
                f"use more than {self.each // 2}, or fewer buckets"
            )
        self.table = nn.Embedding(buckets, heads)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, queries: Int[Tensor, "T"], keys: Int[Tensor, "S"]) -> Float[Tensor, "H T S"]:
        return self.table(self.bucket(keys - queries[:, None])).permute(2, 0, 1)

    def bucket(self, offset: Int[Tensor, "T S"]) -> Int[Tensor, "T S"]:
        """The number of each bucket; `offset` is negative where the key comes before the query."""
        later = 0 if self.causal else (offset > 0) * self.each
        away = (-offset).clamp(min=0) if self.causal else offset.abs()
        single = self.each // 2
        octave = (away.clamp(min=1) / single).log() / math.log(self.distance / single)
        far = (single + (octave * (self.each - single)).long()).clamp(max=self.each - 1)
        return later + torch.where(away < single, away, far)
