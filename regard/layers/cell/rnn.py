"""The recurrent network (Elman 1990): what was read so far is one vector, written anew at every position."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from regard.layers.cell._base import Cell, CellState

__all__ = ["RNN"]


class RNN(Cell):
    """a_t = b + W h_{t-1} + U x_t;  h_t = tanh(a_t)."""

    gates, parts, kernel = ("candidate",), ("hidden",), "rnn_tanh"

    def step(self, projected: Float[Tensor, "B G"], state: CellState) -> tuple[CellState, dict[str, Tensor]]:
        (h,) = state
        a = projected + self.remembered(h)
        h = a.tanh()
        return (h,), {"candidate": h}

    def fused_step(
        self, projected: Float[Tensor, "B G"], remembered: Float[Tensor, "B G"], state: CellState
    ) -> CellState:
        return ((projected + remembered).tanh(),)
