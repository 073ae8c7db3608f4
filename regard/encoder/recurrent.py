"""The recurrent encoder: it reads word by word and keeps its state at every one of them."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.layers.recurrence import Recurrence
from regard.types import Memory

__all__ = ["RecurrentEncoder"]


class RecurrentEncoder(nn.Module):
    """Layers of cells. `direction` is forward, backward (the source reversed: Sutskever et al. 2014) or both.

    With both each direction has half the width, so that h_j = [forward_j; backward_j] is as wide as said.
    """

    reads_in_order = True
    """It needs no positions added to its input."""

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
        """`inputs` is how wide the vectors are that come in; 0 stands for `width`."""
        super().__init__()
        self.width = width
        self.recurrence = Recurrence(inputs or width, width, layers, cell, direction, dropout, layer_norm)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B S I"], mask: Bool[Tensor, "B S"]) -> Memory:
        states, final = self.recurrence(x, mask)
        return Memory(self.dropout(states), mask, final)
