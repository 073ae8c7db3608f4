"""The long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers.cell._base import Cell, CellState, Stacked

__all__ = ["LSTM"]


class LSTM(Cell):
    """i, f, o = sigmoid(b + W h + U x);  g = tanh(b + W h + U x);  c' = f c + i g;  h' = o tanh(c')."""

    gates, parts, kernel = ("input", "forget", "candidate", "output"), ("hidden", "cell"), "lstm"

    def __init__(self, inputs: int, width: int, norm: bool = False):
        super().__init__(inputs, width, norm)
        self.rows_of(self.bias, "forget").fill_(1.0)  # so that it remembers at first (Gers et al. 2000)
        self.norm_cell: nn.Module = nn.LayerNorm(width) if norm else nn.Identity()

    def step(self, projected: Stacked, state: CellState) -> tuple[CellState, dict[str, Tensor]]:
        h, c = state
        i, f, g, o = (projected + self.recur(h)).chunk(4, dim=-1)
        i, f = self.edited("input", torch.sigmoid(i)), self.edited("forget", torch.sigmoid(f))
        g, o = self.edited("candidate", torch.tanh(g)), self.edited("output", torch.sigmoid(o))
        c = f * c + i * g
        h = o * torch.tanh(self.norm_cell(c))
        return (h, c), {"input": i, "forget": f, "candidate": g, "output": o}

    def fused_step(self, projected: Stacked, recurrent: Stacked, state: CellState) -> CellState:
        kernel, dtype = torch.ops.aten._thnn_fused_lstm_cell, projected.dtype
        h, c, _ = kernel(projected, recurrent.to(dtype), state[1].to(dtype))
        return h, c
