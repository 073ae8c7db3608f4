"""The interface of every recurrent cell: weights, equations (`step`), and two ways to run them over a padded batch.

A new cell defines `gates`, `parts` and `step`, which uses each gate as `edited` returns it. One whose equations torch
has as fused kernels names them too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.cell._fused import fused
from regard.layers.observable import Observable

Stacked = Float[Tensor, "B G"]
"""One number for every unit of every gate."""
CellState = tuple[Tensor, ...]
"""The state of a cell, each (B, W): the hidden state h, and for an LSTM the cell state c."""


class Cell(Observable, ABC):
    """Gates stacked in one product: a = b + U x + W h has `width` rows per gate.

    `norm` normalises U x and W h, each over all gates of a step (Ba et al. 2016, layer normalization, equation 20).
    """

    gates: ClassVar[tuple[str, ...]]
    """Names of the gates, in the order of their rows."""
    parts: ClassVar[tuple[str, ...]]
    """Names of the parts of the state; the hidden state comes first."""
    kernel: ClassVar[str | None] = None
    """torch's fused function for the same equations, such as "lstm"; None: there is none."""

    def __init__(self, inputs: int, width: int, norm: bool = False):
        super().__init__()
        rows = len(self.gates) * width
        self.width = width
        self.inward = nn.Parameter(torch.empty(rows, inputs))  # U
        self.recurrent = nn.Parameter(torch.empty(rows, width))  # W
        self.bias = nn.Parameter(torch.zeros(rows))  # b
        for name in self.gates:
            nn.init.xavier_uniform_(self.rows_of(self.inward, name))
            nn.init.orthogonal_(self.rows_of(self.recurrent, name))  # preserves norms (Saxe et al.)
        self.normed = norm
        self.norm_inward: nn.Module = nn.LayerNorm(rows, bias=False) if norm else nn.Identity()
        self.norm_recurrent: nn.Module = nn.LayerNorm(rows, bias=False) if norm else nn.Identity()

    def rows_of(self, stacked: Tensor, gate: str) -> Tensor:
        """One gate's rows of a weight or bias."""
        return stacked.detach()[self.gates.index(gate) * self.width :][: self.width]

    def project(self, x: Float[Tensor, "*A I"]) -> Float[Tensor, "*A G"]:
        """b + U x: independent of the past, so it is computed for all positions at once."""
        return self.add_bias(F.linear(x, self.inward, self.early_bias))

    @property
    def early_bias(self) -> Tensor | None:
        """The bias if it can be added to U x, even to a part of it, right away; None where a norm comes first."""
        return None if self.normed else self.bias

    def add_bias(self, product: Float[Tensor, "*A G"]) -> Float[Tensor, "*A G"]:
        """b + U x, from a product that includes the early bias."""
        return self.norm_inward(product) + self.bias if self.normed else product

    def recur(self, hidden: Float[Tensor, "B W"]) -> Stacked:
        """W h."""
        return self.norm_recurrent(F.linear(hidden, self.recurrent))

    @abstractmethod
    def step(self, projected: Stacked, state: CellState) -> tuple[CellState, dict[str, Tensor]]:
        """The equations: from b + U x_t and the state before to the state after, and the gates by name."""

    def edited_step(self, projected: Stacked, state: CellState) -> tuple[CellState, dict[str, Tensor]]:
        """`step`, with the state after it passed through the editor; `step` itself passes on its gates."""
        after, gates = self.step(projected, state)
        return tuple(self.edited(part, value) for part, value in zip(self.parts, after)), gates

    def advance(self, projected: Stacked, state: CellState) -> CellState:
        """One step: by the fused kernel where there is one and no observer, else by the equations."""
        if not self.spells_out and projected.is_cuda:
            return self.fused_step(projected, self.recur(state[0]), state)
        after, gates = self.edited_step(projected, state)
        if self.observer:
            for name, value in (gates | dict(zip(self.parts, after))).items():
                self.observer(name, value[:, None])
        return after

    def fused_step(self, projected: Stacked, recurrent: Stacked, state: CellState) -> CellState:
        """The equations after both products, in one of torch's GPU kernels. Called only if there is a `kernel`."""
        raise NotImplementedError

    def initial(self, batch: int) -> CellState:
        return tuple(self.bias.new_zeros(batch, self.width) for _ in self.parts)

    def forward(
        self,
        x: Float[Tensor, "B T I"],
        mask: Bool[Tensor, "B T"] | None = None,
        state: CellState | None = None,
        backwards: bool = False,
    ) -> tuple[Float[Tensor, "B T W"], CellState]:
        """The hidden state at every position (zero at padding) and the state after the last real one.

        `backwards` reads from the last real position to the first.
        """
        state = self.initial(len(x)) if state is None else state
        if self.spells_out:
            return self.spelled_out(x, mask, state, backwards)
        outputs, states = fused([self], 1, x, mask, [state], backwards=backwards)
        return outputs, states[0]

    @property
    def spells_out(self) -> bool:
        """Whether the equations are needed: there is no fused kernel, an observer, an editor, or a norm."""
        return self.kernel is None or self.observer is not None or self.editor is not None or self.normed

    def spelled_out(
        self, x: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"] | None, state: CellState, backwards: bool = False
    ) -> tuple[Float[Tensor, "B T W"], CellState]:
        """The equations, position by position; at padding the state does not change."""
        projected = self.project(x)
        outputs: dict[int, Tensor] = {}
        values: dict[int, dict[str, Tensor]] = {}
        positions = range(x.shape[1])
        for t in reversed(positions) if backwards else positions:
            after, gates = self.edited_step(projected[:, t], state)
            if mask is None:
                state, outputs[t] = after, after[0]
            else:
                real = mask[:, t, None]
                state = tuple(torch.where(real, new, old) for new, old in zip(after, state))
                outputs[t] = after[0] * real
            values[t] = gates | dict(zip(self.parts, after))
        if self.observer and positions:
            for name in values[0]:
                self.observer(name, torch.stack([values[t][name] for t in positions], 1))
        return torch.stack([outputs[t] for t in positions], 1), state
