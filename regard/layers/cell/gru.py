"""The gated recurrent unit (Cho et al. 2014): an LSTM with one state and two gates."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.layers.cell._base import Cell, CellState, Stacked

__all__ = ["GRU"]


class GRU(Cell):
    """r, z = sigmoid(b + W h + U x);  n = tanh(b + U x + r (W h));  h' = (1 - z) n + z h."""

    gates, parts, kernel = ("reset", "update", "candidate"), ("hidden",), "gru"

    def step(self, projected: Stacked, state: CellState) -> tuple[CellState, dict[str, Tensor]]:
        (h,) = state
        x_r, x_z, x_n = projected.chunk(3, dim=-1)
        h_r, h_z, h_n = self.recur(h).chunk(3, dim=-1)
        r, z = self.edited("reset", torch.sigmoid(x_r + h_r)), self.edited("update", torch.sigmoid(x_z + h_z))
        # The paper has W (r h): reset before the product; after it, W h is one product.
        n = self.edited("candidate", torch.tanh(x_n + r * h_n))
        h = (1 - z) * n + z * h
        return (h,), {"reset": r, "update": z, "candidate": n}

    def fused_step(self, projected: Stacked, recurrent: Stacked, state: CellState) -> CellState:
        kernel, dtype = torch.ops.aten._thnn_fused_gru_cell, projected.dtype
        h, _ = kernel(projected, recurrent.to(dtype), state[0].to(dtype))
        return (h,)
