"""Vectors plus where they stand: the patches of an image, say, or the steps of a series."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard import registry
from regard.errors import UserError


class Placing(nn.Module):
    """dropout(vectors + position). A position that is learned has just `length` rows, unless a recipe says more.

    A `length` of 0 is one that differs and is not known beforehand.
    """

    def __init__(self, width: int, length: int, position: str | dict[str, object] = "learned", dropout: float = 0.1):
        super().__init__()
        told = {"length": length} if length and not (isinstance(position, dict) and "length" in position) else {}
        self.position = registry.build("layers/position", position, "model.stem.position", width=width, **told)
        self._check(length)
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        self._check(vectors.shape[1])
        places = torch.arange(vectors.shape[1], device=vectors.device)
        return self.dropout(vectors + self.position(places).to(vectors.dtype))

    def _check(self, length: int) -> None:
        room = self.position.limit
        if room is not None and room < length:
            raise UserError(f"model.stem.position: has room for {room} places, but there are {length}; give it more")
