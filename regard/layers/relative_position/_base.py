"""The interface of relative positions: numbers that are added to the scores of self-attention."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard import registry
from regard.errors import UserError


class RelativePosition(nn.Module, ABC):
    """Positions of queries and keys in, what is added to the score of each pair out: one table for a whole stack."""

    adds: ClassVar[bool] = True
    """False if nothing is ever added."""
    cuda_graphable: ClassVar[bool] = False
    """True if a forward pass never waits for the GPU and draws no numbers on the host."""

    @abstractmethod
    def forward(self, queries: Int[Tensor, "T"], keys: Int[Tensor, "S"]) -> Float[Tensor, "H T S"] | None:
        """None where nothing is added."""


def build_relative_position(spec: str | dict[str, Any], part: str, layers: Iterable[Any], causal: bool) -> Any:
    """What a part's recipe names, for self-attention in these layers. `causal`: no query attends to later keys."""
    attention, where = next(iter(layers)).attention, f"{part}.relative_position"
    made = registry.build("layers/relative_position", spec, where, heads=attention.heads, causal=causal)
    if made.adds and not attention.takes_relative_position:
        raise UserError(f"{where}: {type(attention).__name__} adds nothing to its scores; use the attention multi_head")
    return made
