"""Stacks of recurrent cells: layers, directions, and dropout between layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard import registry
from regard.errors import UserError
from regard.layers.cell._base import Cell, CellState
from regard.layers.cell._fused import fused

DIRECTIONS = ("forward", "backward", "both")


class Recurrence(nn.Module):
    """A stack of recurrent layers. With both directions each has half the width, and their outputs are concatenated."""

    def __init__(
        self,
        inputs: int,
        width: int,
        layers: int = 1,
        cell: str = "lstm",
        direction: str = "forward",
        dropout: float = 0.0,
        norm: bool = False,
    ):
        super().__init__()
        if direction not in DIRECTIONS:
            raise UserError(f"model.direction: no '{direction}'; use {', '.join(DIRECTIONS)}")
        self.directions = 2 if direction == "both" else 1
        if width % self.directions:
            raise UserError(f"model: width {width} cannot be halved for two directions; choose an even one")
        self.backwards, self.layers, self.dropout = direction == "backward", layers, dropout
        make = registry.factory("layers/cell", cell, "model.cell")
        self.cells = nn.ModuleList(
            make(inputs if layer == 0 else width, width // self.directions, norm=norm)
            for layer in range(layers)
            for _ in range(self.directions)
        )

    @property
    def parts(self) -> int:
        """The number of vectors in the state of one layer."""
        return len(cast(Cell, self.cells[0]).parts)

    def layer(self, number: int) -> list[Cell]:
        """The cells of a layer: one, or one for each direction."""
        return cast(list[Cell], list(self.cells[number * self.directions :][: self.directions]))

    def forward(
        self,
        x: Float[Tensor, "B T I"],
        mask: Bool[Tensor, "B T"] | None = None,
        state: Sequence[CellState] | None = None,
    ) -> tuple[Float[Tensor, "B T W"], list[CellState]]:
        """The top layer's outputs, zero at padding, and the last state of every layer."""
        states = self._split(state) if state else [cast(Cell, cell).initial(len(x)) for cell in self.cells]
        dropout = self.dropout if self.training else 0.0
        # cuDNN's own dropout cannot be resumed bit-exactly.
        exact = dropout > 0 and self.layers > 1 and torch.are_deterministic_algorithms_enabled()
        if exact or any(cast(Cell, cell).spells_out for cell in self.cells):
            outputs, finals = self._layer_by_layer(x, mask, states, dropout)
        else:
            cells = cast(list[Cell], list(self.cells))
            outputs, finals = fused(cells, self.directions, x, mask, states, dropout, self.backwards)
        return outputs, self._joined(finals)

    def step(self, product: Float[Tensor, "B G"], states: Sequence[CellState]) -> list[CellState]:
        """One position of a forward stack; `product` is the first layer's U x, with its early bias."""
        after: list[CellState] = []
        for number, state in enumerate(states):
            (cell,) = self.layer(number)
            if after:
                projected = cell.project(F.dropout(after[-1][0], self.dropout, self.training))
            else:
                projected = cell.add_bias(product)
            after.append(cell.advance(projected, state))
        return after

    def _layer_by_layer(
        self, x: Tensor, mask: Tensor | None, states: list[CellState], dropout: float
    ) -> tuple[Tensor, list[CellState]]:
        finals: list[CellState] = []
        for number in range(self.layers):
            x = F.dropout(x, dropout) if number else x
            outputs = []
            for direction, cell in enumerate(self.layer(number)):
                output, final = cell(x, mask, states[len(finals)], backwards=self.backwards or direction == 1)
                outputs.append(output)
                finals.append(final)
            x = torch.cat(outputs, -1)
        return x, finals

    def _joined(self, states: list[CellState]) -> list[CellState]:
        """One state per layer: both directions concatenated."""
        pairs = [states[i : i + self.directions] for i in range(0, len(states), self.directions)]
        return [tuple(torch.cat(part, -1) for part in zip(*pair)) for pair in pairs]

    def _split(self, states: Sequence[CellState]) -> list[CellState]:
        halves = [[part.chunk(self.directions, -1) for part in layer] for layer in states]
        return [tuple(part[d] for part in layer) for layer in halves for d in range(self.directions)]
