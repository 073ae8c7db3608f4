"""What every cell is: its weights, its equations (`step`), and two ways to run them over a padded batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.cell._fused import fused
from regard.layers.watch import Watched

Stacked = Float[Tensor, "B G"]
"""A number for every unit of every gate."""
CellState = tuple[Tensor, ...]
"""What a cell remembers, each (B, W): the hidden state h, and for an LSTM the cell state c."""


class Cell(Watched, ABC):
    """Gates stacked in one product: a = b + U x + W h has `width` rows per gate.

    `norm` normalises U x and W h, each over all gates of a step (Ba et al. 2016, layer normalization, equation 20).
    """

    gates: ClassVar[tuple[str, ...]]
    """Their names, in the order of their rows."""
    parts: ClassVar[tuple[str, ...]]
    """What the state is made of; the hidden state is first."""
    kernel: ClassVar[str]
    """torch's fused function for the same equations."""

    def __init__(self, inputs: int, width: int, norm: bool = False):
        super().__init__()
        rows = len(self.gates) * width
        self.width = width
        self.inward = nn.Parameter(torch.empty(rows, inputs))  # U
        self.recurrent = nn.Parameter(torch.empty(rows, width))  # W
        self.bias = nn.Parameter(torch.zeros(rows))  # b
        for name in self.gates:
            nn.init.xavier_uniform_(self.rows_of(self.inward, name))
            nn.init.orthogonal_(self.rows_of(self.recurrent, name))  # keeps the length of what it turns (Saxe et al.)
        self.normed = norm
        self.norm_inward: nn.Module = nn.LayerNorm(rows, bias=False) if norm else nn.Identity()
        self.norm_recurrent: nn.Module = nn.LayerNorm(rows, bias=False) if norm else nn.Identity()

    def rows_of(self, stacked: Tensor, gate: str) -> Tensor:
        """One gate's rows of a weight or bias."""
        return stacked.detach()[self.gates.index(gate) * self.width :][: self.width]

    def project(self, x: Float[Tensor, "*A I"]) -> Float[Tensor, "*A G"]:
        """b + U x: what does not depend on the past, so that it can be computed for all positions at once."""
        return self.settled(F.linear(x, self.inward, self.early_bias))

    @property
    def early_bias(self) -> Tensor | None:
        """The bias where it may be added to U x right away, even to a part of it; a norm must come before it."""
        return None if self.normed else self.bias

    def settled(self, product: Float[Tensor, "*A G"]) -> Float[Tensor, "*A G"]:
        """b + U x from a product that has its early bias."""
        return self.norm_inward(product) + self.bias if self.normed else product

    def remembered(self, hidden: Float[Tensor, "B W"]) -> Stacked:
        """W h."""
        return self.norm_recurrent(F.linear(hidden, self.recurrent))

    @abstractmethod
    def step(self, projected: Stacked, state: CellState) -> tuple[CellState, dict[str, Tensor]]:
        """The equations: from b + U x_t and the state before to the state after, and the gates by name."""

    def advance(self, projected: Stacked, state: CellState) -> CellState:
        """One step: fused where that is possible and nobody watches, else by the equations."""
        if not self.spells_out and projected.is_cuda:
            return self.fused_step(projected, self.remembered(state[0]), state)
        after, gates = self.step(projected, state)
        if self.watcher:
            for name, value in (gates | dict(zip(self.parts, after))).items():
                self.watcher(name, value[:, None])
        return after

    @abstractmethod
    def fused_step(self, projected: Stacked, remembered: Stacked, state: CellState) -> CellState:
        """The equations after the products, in one kernel of torch's for a GPU."""

    def empty(self, rows: int) -> CellState:
        return tuple(self.bias.new_zeros(rows, self.width) for _ in self.parts)

    def forward(
        self,
        x: Float[Tensor, "B T I"],
        mask: Bool[Tensor, "B T"] | None = None,
        state: CellState | None = None,
        backwards: bool = False,
    ) -> tuple[Float[Tensor, "B T W"], CellState]:
        """The hidden state at every position (zero where the mask is) and the state after the last real one.

        `backwards` reads from the last real position to the first.
        """
        state = self.empty(len(x)) if state is None else state
        if self.spells_out:
            return self.spelled_out(x, mask, state, backwards)
        outputs, states = fused([self], 1, x, mask, [state], backwards=backwards)
        return outputs, states[0]

    @property
    def spells_out(self) -> bool:
        """Whether something is wanted that the fused kernel does not have: a watcher, or the norm."""
        return self.watcher is not None or self.normed

    def spelled_out(
        self, x: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"] | None, state: CellState, backwards: bool = False
    ) -> tuple[Float[Tensor, "B T W"], CellState]:
        """The equations, one position after the other; at padding the state stays as it is."""
        projected = self.project(x)
        outputs: dict[int, Tensor] = {}
        seen: dict[int, dict[str, Tensor]] = {}
        positions = range(x.shape[1])
        for t in reversed(positions) if backwards else positions:
            after, gates = self.step(projected[:, t], state)
            if mask is None:
                state, outputs[t] = after, after[0]
            else:
                real = mask[:, t, None]
                state = tuple(torch.where(real, new, old) for new, old in zip(after, state))
                outputs[t] = after[0] * real
            seen[t] = gates | dict(zip(self.parts, after))
        if self.watcher and positions:
            for name in seen[0]:
                self.watcher(name, torch.stack([seen[t][name] for t in positions], 1))
        return torch.stack([outputs[t] for t in positions], 1), state
