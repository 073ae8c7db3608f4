"""An image as the feature grid of a small convolutional network, for a decoder to attend to (Xu et al. 2015)."""

from __future__ import annotations

import math
from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import UserError
from regard.layers.add_position import AddPosition
from regard.layers.augment import Augment
from regard.stem._base import Stem

__all__ = ["Grid"]

Maps = Float[Tensor, "B C H W"]


class Block(nn.Module):
    """x + conv(relu(norm(conv(relu(norm(x)))))), a pre-activation residual block (He et al. 2016b)."""

    def __init__(self, channels: int):
        super().__init__()
        self.norms = nn.ModuleList(group_norm(channels) for _ in range(2))
        self.convolutions = nn.ModuleList(convolution(channels, channels) for _ in range(2))

    def forward(self, maps: Maps) -> Maps:
        x = maps
        for norm, conv in zip(self.norms, self.convolutions):
            x = conv(F.relu(norm(x)))
        return maps + x


class Grid(Stem):
    """Each stage halves the image and doubles the channels, up to `width`; the cells of the last map are the sequence.

    Group normalisation (Wu and He 2018): unlike with batch norm, an image does not depend on the rest of its batch.
    """

    reads: ClassVar[str] = "image"

    def __init__(
        self,
        channels: int,
        size: int,
        width: int = 256,
        stages: int = 3,
        blocks: int = 1,
        position: str | dict[str, object] = "learned",
        dropout: float = 0.1,
        augment: str = "",
    ):
        super().__init__()
        side = size
        for _ in range(stages):
            side = (side + 1) // 2
        if side < 2:
            raise UserError(f"model.stem.stages: {size} pixels halved {stages} times leave no grid; use fewer stages")
        if width % 2 ** (stages - 1):
            raise UserError(f"model.stem.width: {width} cannot be halved {stages - 1} times; choose another width")
        self.width = width
        self.grid = (side, side)
        self.augment = Augment(augment)
        layers: list[nn.Module] = []
        before = channels
        for stage in reversed(range(stages)):
            after = width // 2**stage
            layers += [convolution(before, after, stride=2), *(Block(after) for _ in range(blocks))]
            before = after
        self.layers = nn.Sequential(*layers)
        self.norm = group_norm(width)
        self.placing = AddPosition(width, side * side, position, dropout)

    def forward(
        self, source: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B M"]
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B S"]]:
        maps = F.relu(self.norm(self.layers(self.augment(source))))
        vectors = maps.flatten(2).transpose(1, 2)
        return self.placing(vectors), mask.new_ones(vectors.shape[:2])


def convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    """3 x 3, without bias: the norm that follows has one."""
    conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


def group_norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(math.gcd(channels, 8), channels)
