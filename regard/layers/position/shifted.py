"""Sinusoidal positions that in training begin anywhere (Dehghani et al. 2019, 3.3), so that a model learns to look at
how far things are from each other, and has met the positions of texts longer than those it was trained on."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layers.position.sinusoidal import Sinusoidal

__all__ = ["Shifted", "shift_together"]


class Shifted(nn.Module):
    """PE(pos + offset), where in training the offset is drawn from 0 to `most`; in use it is 0."""

    limit: int | None = None

    def __init__(self, width: int, most: int = 100):
        super().__init__()
        self.most = most
        self.sinusoidal = Sinusoidal(width)
        self.offset: int | None = None
        """That of the next call in training; None draws one."""

    def forward(self, positions: Int[Tensor, "T"]) -> Float[Tensor, "T D"]:
        if self.training:
            positions = positions + (_drawn(self.most) if self.offset is None else self.offset)
        return self.sinusoidal(positions)


def shift_together(model: nn.Module) -> None:
    """One offset for all shifted positions in a model, until the next time: what is read and what is written then move
    by as much. Not as in the paper, where each moves by itself: to copy is then to look where one stands only here."""
    found = [module for module in model.modules() if isinstance(module, Shifted)]
    if found:
        offset = _drawn(min(module.most for module in found))
        for module in found:
            module.offset = offset


def _drawn(most: int) -> int:
    return int(torch.randint(most + 1, ()))  # of the CPU's random numbers, whose state a run saves, and without waiting
