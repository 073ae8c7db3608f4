"""Clips: a small convolutional network turns every frame of a sequence of images into one vector."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.layers.add_position import AddPosition
from regard.stem._base import Stem

__all__ = ["Clips"]

GRID = 4
"""Images are halved until they are no wider than this: few cells remain, and they still tell where something is."""


class Clips(Stem):
    """Convolutions that halve the image, a linear layer over the remaining grid, plus position.

    No batch norm: a frame's vector must not depend on the rest of the batch.
    """

    reads: ClassVar[str] = "clip"

    def __init__(
        self,
        channels: int,
        size: int,
        width: int = 128,
        filters: int = 16,
        position: str | dict[str, object] = "sinusoidal",
        dropout: float = 0.1,
    ):
        """`filters` is the number of the first convolution; each further one has twice as many, up to eight times."""
        super().__init__()
        self.width = width
        layers: list[nn.Module] = []
        side, inputs, outputs = size, channels, filters
        while side > GRID or not layers:
            convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1)
            nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
            nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
            layers += [convolution, nn.ReLU()]
            side, inputs, outputs = (side + 1) // 2, outputs, min(2 * outputs, 8 * filters)
        self.look = nn.Sequential(*layers, nn.Flatten(), nn.Linear(inputs * side * side, width))
        self.placing = AddPosition(width, 0, position, dropout)

    def forward(
        self, source: Float[Tensor, "B S C H W"], mask: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B S"]]:
        return self.placing(self.look(source.flatten(0, 1)).unflatten(0, mask.shape)), mask
