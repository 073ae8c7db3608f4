"""Additive attention (Bahdanau, Cho and Bengio 2015): a small network scores each pair of query and memory position."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.attention._base import Attention, Mask, Positions, ProjectedMemory, Query

__all__ = ["Additive"]


class Additive(Attention):
    """e_ij = v^T tanh(W_1 s_i + W_2 h_j);  alpha_i = softmax(e_i);  c_i = sum over j of alpha_ij h_j."""

    def __init__(self, width: int, memory_width: int = 0, size: int = 0):
        """`size` is the hidden width of the scoring network; 0 means `width`, for `memory_width` too."""
        super().__init__()
        self.context = memory_width or width
        self.query = nn.Linear(width, size or width, bias=False)  # W_1
        self.key = nn.Linear(self.context, size or width, bias=False)  # W_2
        self.score = nn.Linear(size or width, 1, bias=False)  # v

    def project_memory(self, memory: Float[Tensor, "B S M"]) -> ProjectedMemory:
        return {"key": self.key(memory), "value": memory}

    def scores(
        self, query: Query, projected: ProjectedMemory, mask: Mask = None, positions: Positions = None
    ) -> Float[Tensor, "B T S"]:
        hidden = torch.tanh(self.query(query)[:, :, None] + projected["key"][:, None])
        return self.score(hidden)[..., 0]
