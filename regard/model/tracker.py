"""A tracker: a stem and an encoder read frame by frame, and at every frame a place is given."""

from __future__ import annotations

import math

from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from regard.types import Batch, LossSum, Memory

__all__ = ["Tracker"]

Places = tuple[Float[Tensor, "B S P"], Float[Tensor, "B S"]]


class Tracker(nn.Module):
    """y_t ~ Normal(W h_t + b, s_t): a place at every position, and how sure that is."""

    def __init__(self, stem: nn.Module, encoder: nn.Module, values: int = 2, head_dropout: float = 0.0):
        super().__init__()
        self.stem, self.encoder, self.values = stem, encoder, values
        self.dropout = nn.Dropout(head_dropout)
        self.head = nn.Linear(encoder.width, values + 1)  # type: ignore[arg-type]

    def forward(self, source: Shaped[Tensor, "B *input"], mask: Bool[Tensor, "B S"]) -> Places:
        """The places and, in the same measure, their spread in each direction."""
        return self._places(self.encoder(*self.stem(source, mask)))

    def _places(self, memory: Memory) -> Places:
        found = self.head(self.dropout(memory.states)).float()
        # Never surer than a thousandth: an error that is by chance zero must not be worth everything.
        return found[..., : self.values], found[..., self.values].clamp(math.log(1e-3), math.log(10.0)).exp()

    def loss(self, batch: Batch) -> LossSum:
        """-log p of the places that are wanted, up to a constant."""
        memory = self.encoder(*self.stem(batch.source, batch.source_mask))
        places, spread = self._places(memory)
        squared = (places - batch.target).square().sum(-1)
        surprise = squared / (2 * spread.square()) + self.values * spread.log()
        total = surprise.masked_fill(~batch.target_mask, 0.0).sum()
        if memory.cost is not None and self.training:
            total = total + memory.cost.sum()
        return LossSum(total, batch.units)
