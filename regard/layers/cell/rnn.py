"""The recurrent network (Elman 1990): one hidden state, updated at every position."""

from __future__ import annotations

from torch import Tensor

from regard.layers.cell._base import Cell, CellState, Stacked

__all__ = ["RNN"]


class RNN(Cell):
    """a_t = b + W h_{t-1} + U x_t;  h_t = tanh(a_t)."""

    gates, parts, kernel = ("candidate",), ("hidden",), "rnn_tanh"

    def step(self, projected: Stacked, state: CellState) -> tuple[CellState, dict[str, Tensor]]:
        (h,) = state
        a = projected + self.recur(h)
        h = self.edited("candidate", a.tanh())
        return (h,), {"candidate": h}

    def fused_step(self, projected: Stacked, recurrent: Stacked, state: CellState) -> CellState:
        return ((projected + recurrent).tanh(),)
