"""The recurrent encoder: reads token by token and returns its hidden state at each of them."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.encoder._base import Encoder
from regard.layers.recurrence import Recurrence
from regard.types import Memory

__all__ = ["RecurrentEncoder"]


class RecurrentEncoder(Encoder):
    """Layers of cells. `direction` is forward, backward (the source reversed: Sutskever et al. 2014) or both.

    With both, each direction has half the width, so that h_j = [forward_j; backward_j] has `width`.
    """

    adds_own_positions: ClassVar[bool] = True  # it reads in order

    def __init__(
        self,
        inputs: int = 0,
        width: int = 512,
        layers: int = 1,
        cell: str = "lstm",
        direction: str = "both",
        dropout: float = 0.1,
        layer_norm: bool = False,
    ):
        """`inputs` is the width of the input vectors; 0 means `width`."""
        super().__init__()
        self.width = width
        self.recurrence = Recurrence(inputs or width, width, layers, cell, direction, dropout, layer_norm)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B S I"], mask: Bool[Tensor, "B S"]) -> Memory:
        states, final = self.recurrence(x, mask)
        return Memory(self.dropout(states), mask, final)
