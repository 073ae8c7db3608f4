"""No relative positions."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from regard.layers.relative_position._base import RelativePosition

__all__ = ["NoRelativePosition"]


class NoRelativePosition(RelativePosition):
    """Nothing is added to any score."""

    adds: ClassVar[bool] = False
    cuda_graphable: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()

    def forward(self, queries: Int[Tensor, "T"], keys: Int[Tensor, "S"]) -> None:
        return None
