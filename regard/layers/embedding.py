"""Token embedding: a row of a table, scaled, plus its position (Vaswani et al. 2017, 3.4 and 3.5)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard import registry
from regard.layers.position._base import Position


class TokenEmbedding(nn.Module):
    """dropout(table[id] * sqrt(width) + position). The table may be shared with another embedding or the output.

    Without `scale` the factor is 1, as in GPT-2 and BERT; with `norm` the sum is normalised, as in BERT.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        position: str | dict[str, object] = "sinusoidal",
        dropout: float = 0.1,
        scale: bool = True,
        norm: bool = False,
        norm_epsilon: float = 1e-5,
    ):
        super().__init__()
        self.scale = width**0.5 if scale else 1.0
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=width**-0.5 if scale else 0.02)
        self.position: Position = registry.build("layers/position", position, "model.position", width=width)
        self.norm = nn.LayerNorm(width, eps=norm_epsilon) if norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Int[Tensor, "B T"], start: Int[Tensor, ""] | int = 0) -> Float[Tensor, "B T D"]:
        positions = start + torch.arange(ids.shape[1], device=ids.device)
        vectors = self.table(ids) * self.scale
        return self.dropout(self.norm(vectors + self.position(positions).to(vectors.dtype)))
