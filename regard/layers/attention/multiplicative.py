"""Multiplicative attention (Luong, Pham and Manning 2015, 3.1): the score is a product of query and memory vector."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.attention._base import Attention, Mask, Positions, ProjectedMemory, Query

__all__ = ["Multiplicative"]

SCORES = ("dot", "general", "concat")


class Multiplicative(Attention):
    """score(h_t, h_s) = h_t^T h_s (dot), h_t^T W h_s (general) or v^T tanh(W [h_t; h_s]) (concat)."""

    def __init__(self, width: int, memory_width: int = 0, score: str = "general"):
        super().__init__()
        if score not in SCORES:
            raise UserError(f"model.attention: no score '{score}'; use {', '.join(SCORES)}")
        self.context = memory_width or width
        if score == "dot" and self.context != width:
            raise UserError(f"model.attention: the dot score needs equal widths, not {width} and {self.context}")
        self.score = score
        self.key = nn.Linear(self.context, width, bias=False) if score != "dot" else None  # W, or its right half
        self.query = nn.Linear(width, width, bias=False) if score == "concat" else None  # W's left half
        self.vector = nn.Linear(width, 1, bias=False) if score == "concat" else None  # v

    def project_memory(self, memory: Float[Tensor, "B S M"]) -> ProjectedMemory:
        return {"key": self.key(memory) if self.key else memory, "value": memory}

    def scores(
        self, query: Query, projected: ProjectedMemory, mask: Mask = None, positions: Positions = None
    ) -> Float[Tensor, "B T S"]:
        key = projected["key"]
        if self.query and self.vector:
            return self.vector(torch.tanh(self.query(query)[:, :, None] + key[:, None]))[..., 0]
        return query @ key.mT
