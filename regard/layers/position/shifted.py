"""Sinusoidal positions with a random offset in training (Dehghani et al. 2019, 3.3), so that a model learns relative
distances and has seen the positions of texts longer than its training examples."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layers.position._base import Position
from regard.layers.position.sinusoidal import Sinusoidal

__all__ = ["Shifted", "shift_together"]


class Shifted(Position):
    """PE(pos + offset): in training the host draws the offset from 0 to `most`; at inference it is 0."""

    def __init__(self, width: int, most: int = 100):
        super().__init__()
        self.most = most
        self.sinusoidal = Sinusoidal(width)
        self.offset: int | None = None
        """The offset of the next training step; None: draw one per call."""

    def forward(self, positions: Int[Tensor, "T"]) -> Float[Tensor, "T D"]:
        if self.training:
            positions = positions + (_drawn(self.most) if self.offset is None else self.offset)
        return self.sinusoidal(positions)


def shift_together(model: nn.Module) -> None:
    """Draws one offset for all shifted positions of a model, so that source and target shift by the same amount.

    The paper draws them independently; with a common offset, copying still means attending to the same position.
    """
    found = [module for module in model.modules() if isinstance(module, Shifted)]
    if found:
        offset = _drawn(min(module.most for module in found))
        for module in found:
            module.offset = offset


def _drawn(most: int) -> int:
    return int(torch.randint(most + 1, ()))  # from the CPU's generator, whose state a checkpoint saves
