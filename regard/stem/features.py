"""Time series: the values of a step, or of a patch of steps, become a vector."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.add_position import AddPosition
from regard.stem._base import Stem

__all__ = ["Features"]


class Features(Stem):
    """A linear layer plus position. `patch` steps make one vector (Nie et al. 2023, PatchTST)."""

    reads: ClassVar[str] = "series"

    def __init__(
        self,
        features: int,
        width: int = 128,
        position: str | dict[str, object] = "sinusoidal",
        dropout: float = 0.1,
        patch: int = 1,
    ):
        super().__init__()
        self.width, self.patch = width, patch
        self.project = nn.Linear(features * patch, width)
        self.placing = AddPosition(width, 0, position, dropout)

    def forward(
        self, source: Float[Tensor, "B S F"], mask: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B P D"], Bool[Tensor, "B P"]]:
        """The last patch is padded with zeros (the mean of scaled values); it is real if any of its steps is."""
        if self.patch > 1:
            extra = -source.shape[1] % self.patch
            source = F.pad(source.masked_fill(~mask[..., None], 0.0), (0, 0, 0, extra))
            source = source.unflatten(1, (-1, self.patch)).flatten(2)
            mask = F.pad(mask, (0, extra)).unflatten(1, (-1, self.patch)).any(-1)
        return self.placing(self.project(source)), mask
