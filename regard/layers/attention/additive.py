"""Additive attention (Bahdanau, Cho and Bengio 2015): a small network judges how well query and memory match."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.attend import mix
from regard.layers.attention._base import Attention, Context, Kept, Mask, Places, Query

__all__ = ["Additive"]


class Additive(Attention):
    """e_ij = v^T tanh(W_1 s_i + W_2 h_j);  alpha_i = softmax(e_i);  c_i = sum over j of alpha_ij h_j."""

    def __init__(self, width: int, memory_width: int = 0, size: int = 0):
        """`size` is the small network's width; 0 stands for `width`, in both."""
        super().__init__()
        self.context = memory_width or width
        self.query = nn.Linear(width, size or width, bias=False)  # W_1
        self.key = nn.Linear(self.context, size or width, bias=False)  # W_2
        self.score = nn.Linear(size or width, 1, bias=False)  # v

    def remember(self, memory: Float[Tensor, "B S M"]) -> Kept:
        return {"key": self.key(memory), "value": memory}

    def recall(self, query: Query, kept: Kept, mask: Mask = None, places: Places = None) -> Context:
        matched = torch.tanh(self.query(query)[:, :, None] + kept["key"][:, None])
        return mix(self.score(matched)[..., 0], kept["value"], mask, self.watcher)
