"""The recurrent decoder without attention: all it knows of the source is its initial state."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.decoder._base import Decoder
from regard.layers.bridge import Bridge
from regard.layers.cell._base import CellState
from regard.layers.embedding import TokenEmbedding
from regard.layers.recurrence import Recurrence
from regard.types import Memory, State, map_tree

__all__ = ["RecurrentDecoder"]


class RecurrentDecoder(Decoder):
    """s_t = cell(s_{t-1}, y_{t-1}), s_0 from the source: the fixed-length bottleneck (Sutskever et al. 2014)."""

    def __init__(
        self,
        vocabulary: int,
        memory_width: int | None = 0,
        width: int = 512,
        embedding: int = 0,
        layers: int = 1,
        cell: str = "lstm",
        dropout: float = 0.1,
        layer_norm: bool = False,
        bridge: str = "dense",
        tie: bool = True,
    ):
        """`memory_width` and `embedding`: 0 means `width`. A `memory_width` of None: a language model."""
        super().__init__(TokenEmbedding(vocabulary, embedding or width, "none", dropout), width, tie)
        self.recurrence = Recurrence(embedding or width, width, layers, cell, "forward", dropout, layer_norm)
        self.width, self.bridge = width, None
        if memory_width is not None:
            self.bridge = Bridge(memory_width or width, width, layers, self.recurrence.parts, bridge)
        self.dropout = nn.Dropout(dropout)

    def start(self, memory: Memory, beams: int, capacity: int) -> State:
        initial = self.bridge(memory) if self.bridge else self._zeros(memory)
        return State(
            beams=beams,
            position=torch.zeros((), dtype=torch.long, device=memory.states.device),
            carry=map_tree(lambda part: part.repeat_interleave(beams, 0), initial),
        )

    def _zeros(self, memory: Memory) -> list[CellState]:
        """The initial state of a language model."""
        zero = torch.zeros(len(memory), self.width, device=memory.states.device)
        return [(zero,) * self.recurrence.parts for _ in self.recurrence.cells]

    def advance(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T D"], State]:
        outputs, carry = self.recurrence(self.embedding(ids), state=state.carry)
        return self.dropout(outputs), replace(state, carry=carry, position=state.position + ids.shape[1])
