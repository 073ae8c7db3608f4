"""A tracker: a stem and an encoder read frame by frame, and at every frame a place is given."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from regard.types import Batch, LossSum, Memory

__all__ = ["Tracker"]

Places = tuple[Float[Tensor, "B S 2"], Float[Tensor, "B S"]]

LEAST, MOST = 1e-3, 10.0
"""Never surer than a thousandth of the picture: an error that is by chance zero must not be worth everything."""


class Tracker(nn.Module):
    """At every position a place W h + b, and how far off that is expected to be.

    p(y) ~ exp(-2 |y - place| / spread) / spread^2, under which |y - place| is `spread` on average. It falls with the
    distance and not with its square: else the few frames in which the object is hidden outweigh all the others.
    """

    def __init__(self, stem: nn.Module, encoder: nn.Module, head_dropout: float = 0.0):
        super().__init__()
        self.stem, self.encoder = stem, encoder
        self.dropout = nn.Dropout(head_dropout)
        self.head = nn.Linear(encoder.width, 3)  # type: ignore[arg-type]
        nn.init.constant_(self.head.bias[:2], 0.5)  # at first it points to the middle of the picture

    def forward(self, source: Shaped[Tensor, "B *input"], mask: Bool[Tensor, "B S"]) -> Places:
        """The places and, in the same measure, how far off each is expected to be."""
        return self._places(self.encoder(*self.stem(source, mask)))

    def _places(self, memory: Memory) -> Places:
        found = self.head(self.dropout(memory.states)).float()
        return found[..., :2], found[..., 2].clamp(math.log(LEAST), math.log(MOST)).exp()

    def loss(self, batch: Batch) -> LossSum:
        """-log p of the places that are wanted, up to a constant."""
        memory = self.encoder(*self.stem(batch.source, batch.source_mask))
        places, spread = self._places(memory)
        off = torch.linalg.vector_norm(places - batch.target, dim=-1)
        surprise = 2 * (off / spread + spread.log())
        total = surprise.masked_fill(~batch.target_mask, 0.0).sum()
        if memory.cost is not None and self.training:
            total = total + memory.cost.sum()
        return LossSum(total, batch.units)
