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
    """The positions of queries and keys in, what is added to the score of each pair out: one table for a whole stack."""

    cuda_graphable: ClassVar[bool] = False
    """True if a forward pass never waits for the GPU and draws no numbers on the host."""

    @abstractmethod
    def forward(self, queries: Int[Tensor, "T"], keys: Int[Tensor, "S"]) -> Float[Tensor, "H T S"] | None:
        """None: nothing is added."""


def build_relative_position(
    spec: str | dict[str, Any], where: str, layers: Iterable[Any], causal: bool
) -> RelativePosition:
    """What a recipe names, for the self-attention of these layers. `causal`: no query attends to later keys."""
    attention = next(iter(layers)).attention
    made: RelativePosition = registry.build(
        "layers/relative_position", spec, where, heads=attention.heads, causal=causal
    )
    kind = spec if isinstance(spec, str) else spec["kind"]
    if kind != "none" and not attention.takes_relative_position:
        raise UserError(f"{where}: {type(attention).__name__} adds nothing to its scores; use the attention multi_head")
    return made
