"""An image as a sequence of square patches (Dosovitskiy et al. 2021, equation 1)."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.add_position import AddPosition
from regard.layers.augment import Augment
from regard.stem._base import Stem

__all__ = ["Patches"]


class Patches(Stem):
    """[class; patch_1 E; ...; patch_N E] + position: each flattened patch is projected linearly.

    With `distillation_token` a second learned token follows the first (Touvron et al. 2021, DeiT).

    Patches do not overlap, so cutting is a reshape and the projection one matrix product; a convolution with the same
    weights takes twice as long on a CPU for small patches.
    """

    reads: ClassVar[str] = "image"

    def __init__(
        self,
        channels: int,
        size: int,
        patch: int = 4,
        width: int = 192,
        position: str | dict[str, object] = "learned",
        class_token: bool = True,
        dropout: float = 0.1,
        augment: str = "",
        distillation_token: bool = False,
    ):
        super().__init__()
        if distillation_token and not class_token:
            raise UserError("model.stem.distillation_token: comes after a class token; set class_token = true")
        if size % patch:
            fitting = ", ".join(str(n) for n in range(2, size + 1) if size % n == 0)
            raise UserError(f"model.stem.patch: {patch} does not divide images of {size} pixels; use one of {fitting}")
        self.width, self.patch = width, patch
        self.grid = (size // patch, size // patch)
        self.prepended = class_token + distillation_token
        self.augment = Augment(augment)
        self.project = nn.Linear(channels * patch * patch, width)
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.zeros_(self.project.bias)
        self.class_token = nn.Parameter(torch.zeros(width)) if class_token else None
        self.distillation_token = nn.Parameter(torch.zeros(width)) if distillation_token else None
        self.placing = AddPosition(width, self.grid[0] * self.grid[1] + self.prepended, position, dropout)

    def forward(
        self, source: Float[Tensor, "B C H W"], mask: Bool[Tensor, "B M"]
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B S"]]:
        vectors = self.project(self.cut(self.augment(source)))
        learned = [token for token in (self.class_token, self.distillation_token) if token is not None]
        if learned:
            first = torch.stack(tuple(learned)).to(vectors.dtype).expand(len(vectors), -1, -1)
            vectors = torch.cat([first, vectors], dim=1)
        return self.placing(vectors), mask.new_ones(vectors.shape[:2])

    def cut(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B N P"]:
        """The patches row by row; within each, channel by channel, the pixels row by row."""
        pieces = images.unflatten(3, (-1, self.patch)).unflatten(2, (-1, self.patch))
        return pieces.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
