"""A tracker: a stem and an encoder read frame by frame, and at every frame a place is given."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from regard.types import Batch, LossSum, Memory

__all__ = ["Tracker"]

Places = tuple[Float[Tensor, "B S P"], Float[Tensor, "B S"]]

LEAST, MOST = 1e-3, 10.0
"""Never surer than a thousandth of the picture: an error that is by chance zero must not be worth everything."""


class Tracker(nn.Module):
    """At every position a place W h + b, and how far off it expects to be.

    p(y) falls with the distance to the place, and not with its square: p(y) ~ exp(-P |y - place| / spread) / spread^P
    for P coordinates, under which |y - place| is `spread` on average. With the square, the few frames in which the
    object is hidden would outweigh all others.
    """

    def __init__(self, stem: nn.Module, encoder: nn.Module, values: int = 2, head_dropout: float = 0.0):
        super().__init__()
        self.stem, self.encoder, self.values = stem, encoder, values
        self.dropout = nn.Dropout(head_dropout)
        self.head = nn.Linear(encoder.width, values + 1)  # type: ignore[arg-type]
        nn.init.constant_(self.head.bias[:values], 0.5)  # at first it points to the middle of the picture

    def forward(self, source: Shaped[Tensor, "B *input"], mask: Bool[Tensor, "B S"]) -> Places:
        """The places and, in the same measure, how far off each is expected to be."""
        return self._places(self.encoder(*self.stem(source, mask)))

    def _places(self, memory: Memory) -> Places:
        found = self.head(self.dropout(memory.states)).float()
        return found[..., : self.values], found[..., self.values].clamp(math.log(LEAST), math.log(MOST)).exp()

    def loss(self, batch: Batch) -> LossSum:
        """-log p of the places that are wanted, up to a constant."""
        memory = self.encoder(*self.stem(batch.source, batch.source_mask))
        places, spread = self._places(memory)
        off = torch.linalg.vector_norm(places - batch.target, dim=-1)
        surprise = self.values * (off / spread + spread.log())
        total = surprise.masked_fill(~batch.target_mask, 0.0).sum()
        if memory.cost is not None and self.training:
            total = total + memory.cost.sum()
        return LossSum(total, batch.units)
