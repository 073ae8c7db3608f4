"""A tracker: stem and encoder read a clip, and a linear head predicts a point in every frame."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from regard.encoder._base import Encoder
from regard.model._base import Model
from regard.stem._base import Stem
from regard.types import Batch, LossSum, Memory

__all__ = ["Tracker"]

Points = tuple[Float[Tensor, "B S 2"], Float[Tensor, "B S"]]

LEAST, MOST = 1e-3, 10.0
"""Bounds of the spread: never below a thousandth of the image, or a zero error by chance would dominate the loss."""


class Tracker(Model):
    """At every position a point W h + b and its expected error, the spread.

    p(y) ~ exp(-2 |y - point| / spread) / spread^2, under which |y - point| is `spread` on average. It falls with the
    distance and not its square: otherwise the few frames in which the object is hidden outweigh all others.
    """

    def __init__(self, stem: Stem, encoder: Encoder, head_dropout: float = 0.0):
        super().__init__()
        self.stem, self.encoder = stem, encoder
        self.dropout = nn.Dropout(head_dropout)
        self.head = nn.Linear(encoder.width, 3)
        nn.init.constant_(self.head.bias[:2], 0.5)  # starts in the middle of the image

    def forward(self, source: Shaped[Tensor, "B *input"], mask: Bool[Tensor, "B S"]) -> Points:
        """The points and their expected errors, in the same unit."""
        return self._points(self.encoder(*self.stem(source, mask)))

    def _points(self, memory: Memory) -> Points:
        found = self.head(self.dropout(memory.states)).float()
        return found[..., :2], found[..., 2].clamp(math.log(LEAST), math.log(MOST)).exp()

    def loss(self, batch: Batch) -> LossSum:
        """-log p of the reference points, up to a constant."""
        memory = self.encoder(*self.stem(batch.source, batch.source_mask))
        points, spread = self._points(memory)
        off = torch.linalg.vector_norm(points - batch.target, dim=-1)
        surprise = 2 * (off / spread + spread.log())
        total = surprise.masked_fill(~batch.target_mask, 0.0).sum()
        return LossSum(self.with_ponder_cost(total, memory.ponder_cost), batch.units)
