"""The initial state of a recurrent decoder, from the encoder's output."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.cell._base import CellState
from regard.types import Memory

BRIDGES = ("dense", "copy")


class Bridge(nn.Module):
    """dense: s_0 = tanh(W h) for each layer, h the final state of an encoder of any kind (Bahdanau et al. 2015, A.2.2);

    copy: the final states as they are (Sutskever et al. 2014; Luong et al. 2015), from an encoder of the same shape.
    """

    def __init__(self, memory_width: int, width: int, layers: int, parts: int, kind: str = "dense"):
        super().__init__()
        if kind not in BRIDGES:
            raise UserError(f"model.decoder.bridge: no '{kind}'; use {' or '.join(BRIDGES)}")
        self.shape = (layers, parts, width)
        mapped = layers if kind == "dense" else 0
        self.maps = nn.ModuleList(nn.Linear(memory_width, parts * width) for _ in range(mapped))

    def forward(self, memory: Memory) -> list[CellState]:
        if not self.maps:
            return self._copied(memory)
        found = [state[0] for state in memory.final] if memory.final else [_mean(memory)]
        # Top layers are paired; where the decoder has more layers, its lower ones start from the encoder's lowest.
        paired = [found[max(0, len(found) - len(self.maps) + i)] for i in range(len(self.maps))]
        initial = [torch.tanh(layer(h)) for layer, h in zip(self.maps, paired)]
        return [state.chunk(self.shape[1], -1) for state in initial]

    def _copied(self, memory: Memory) -> list[CellState]:
        states = memory.final or []
        shapes = [(len(state), part.shape[-1]) for state in states for part in state]
        layers, parts, width = self.shape
        if shapes != [(parts, width)] * (layers * parts):
            raise UserError(
                'model.decoder.bridge: "copy" needs an encoder with the same cell, layers and width as the decoder; '
                'use "dense"'
            )
        return list(states)


def _mean(memory: Memory) -> Tensor:
    """The mean of the real positions, for an encoder without a final state."""
    real = memory.mask[..., None].to(memory.states.dtype)
    return (memory.states * real).sum(1) / real.sum(1).clamp(min=1)
