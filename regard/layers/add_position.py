"""Vectors plus their positions: the patches of an image, the steps of a series."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard import registry
from regard.errors import UserError
from regard.layers.position._base import Position


class AddPosition(nn.Module):
    """dropout(vectors + position). Learned positions have `length` rows, unless the recipe sets another number.

    A `length` of 0: the length varies and is not known in advance.
    """

    def __init__(self, width: int, length: int, position: str | dict[str, object] = "learned", dropout: float = 0.1):
        super().__init__()
        known = {"length": length} if length and not (isinstance(position, dict) and "length" in position) else {}
        self.position: Position = registry.build(
            "layers/position", position, "model.stem.position", width=width, **known
        )
        self._check(length)
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        self._check(vectors.shape[1])
        positions = torch.arange(vectors.shape[1], device=vectors.device)
        return self.dropout(vectors + self.position(positions).to(vectors.dtype))

    def _check(self, length: int) -> None:
        room = self.position.limit
        if room is not None and room < length:
            raise UserError(
                f"model.stem.position: room for {room} positions, but there are {length}; set a larger length"
            )
