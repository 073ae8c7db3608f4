"""Pooling: one vector per example from one per position."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import UserError
from regard.types import Memory

POOLINGS = ("mean", "max", "last", "first", "first_two")


class Pooling(nn.Module):
    """mean or max of the real positions; last: the final state of a recurrent encoder; first: the class token;
    first_two: the class and the distillation token, concatenated."""

    def __init__(self, kind: str = "mean"):
        super().__init__()
        if kind not in POOLINGS:
            raise UserError(f"model.pooling: no '{kind}'; use {', '.join(POOLINGS)}")
        self.kind = kind
        self.vectors = 2 if kind == "first_two" else 1

    def forward(self, memory: Memory) -> Float[Tensor, "B D"]:
        states, mask = memory.states, memory.mask
        if self.kind == "first_two":
            return states[:, :2].flatten(1)
        if self.kind == "first":
            return states[:, 0]
        if self.kind == "last":
            if memory.final:
                return memory.final[-1][0]
            return states[torch.arange(len(states), device=states.device), mask.sum(1).clamp(min=1) - 1]
        if self.kind == "max":
            return states.masked_fill(~mask[..., None], -torch.inf).amax(1)
        real = mask[..., None].to(states.dtype)
        return (states * real).sum(1) / real.sum(1).clamp(min=1)
