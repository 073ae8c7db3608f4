"""The interface of relative positions: what makes the scores of self-attention depend on the distance of two tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard import registry
from regard.errors import UserError
from regard.layers.attend import Rotation


class RelativePosition(nn.Module, ABC):
    """One for a whole stack: numbers that are added to the scores, or angles by which queries and keys are rotated."""

    adds: ClassVar[bool] = True
    """False if nothing is ever added."""
    rotates: ClassVar[bool] = False
    """True if `rotation` has angles."""
    cuda_graphable: ClassVar[bool] = False
    """True if a forward pass never waits for the GPU and draws no numbers on the host."""

    @abstractmethod
    def forward(self, queries: Int[Tensor, "T"], keys: Int[Tensor, "S"]) -> Float[Tensor, "H T S"] | None:
        """What is added to the score of each pair; None where nothing is."""

    def rotation(self, positions: Int[Tensor, "T"]) -> Rotation | None:
        """How queries and keys at these positions are rotated; None: not at all. This is the default."""
        return None


def build_relative_position(spec: str | dict[str, Any], part: str, layers: Iterable[Any], causal: bool) -> Any:
    """What a part's recipe names, for self-attention in these layers. `causal`: no query attends to later keys."""
    attention, where = next(iter(layers)).attention, f"{part}.relative_position"
    offered = {"heads": attention.heads, "causal": causal}
    if attention.takes_relative_position:
        offered["head_width"] = attention.head_width
    made = registry.build("layers/relative_position", spec, where, **offered)
    if (made.adds or made.rotates) and not attention.takes_relative_position:
        raise UserError(f"{where}: {type(attention).__name__} adds nothing to its scores; use the attention multi_head")
    return made
