"""Data augmentation in training, one function for each name.

They draw from torch's generator on the batch's device, so that a resumed run draws the same numbers and nothing waits
for the GPU. An encoded image has mean 0, so gaps are filled with 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import UserError, suggestion

Images = Float[Tensor, "B C H W"]
Way = Callable[[Tensor], Tensor]


def flip(images: Images) -> Images:
    """Mirrors each image horizontally with probability 1/2."""
    mirrored = torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5
    return torch.where(mirrored, images.flip(-1), images)


def shift(images: Images) -> Images:
    """Shifts each image by up to an eighth of its size, vertically and horizontally."""
    batch, _, height, width = images.shape
    y, x = height // 8, width // 8
    down = torch.randint(0, 2 * y + 1, (batch, 1), device=images.device) + torch.arange(height, device=images.device)
    right = torch.randint(0, 2 * x + 1, (batch, 1), device=images.device) + torch.arange(width, device=images.device)
    rows = torch.arange(batch, device=images.device)[:, None, None]
    moved = F.pad(images, (x, x, y, y))[rows, :, down[:, :, None], right[:, None, :]]
    return moved.permute(0, 3, 1, 2)


def erase(images: Images) -> Images:
    """Erases a rectangle, a tenth to half of each side, with probability 1/2 (Zhong et al. 2020)."""
    batch, _, height, width = images.shape
    chosen = torch.rand(batch, 1, device=images.device) < 0.5

    def along(length: int) -> Tensor:
        """The rows or columns of the rectangle."""
        extent = torch.empty(batch, 1, device=images.device).uniform_(0.1, 0.5) * length
        start = torch.rand(batch, 1, device=images.device) * (length - extent)
        positions = torch.arange(length, device=images.device) + 0.5
        return (positions >= start) & (positions < start + extent)

    inside = (chosen & along(height))[:, None, :, None] & along(width)[:, None, None, :]
    return images.masked_fill(inside, 0.0)


def mask(frames: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
    """Masks two intervals of time and two of frequency in every recording (Park et al. 2019, SpecAugment).

    An interval is up to a tenth of the time or a fifth of the frequency bands.
    """
    batch, times, bands = frames.shape

    def along(length: int, part: float) -> Tensor:
        extent = torch.rand(batch, 1, device=frames.device) * part * length
        start = torch.rand(batch, 1, device=frames.device) * (length - extent)
        positions = torch.arange(length, device=frames.device) + 0.5
        return (positions >= start) & (positions < start + extent)

    for _ in range(2):
        frames = frames.masked_fill(along(times, 0.1)[:, :, None] | along(bands, 0.2)[:, None, :], 0.0)
    return frames


IMAGES: dict[str, Way] = {"flip": flip, "shift": shift, "erase": erase}
SOUNDS: dict[str, Way] = {"mask": mask}


class Augment(nn.Module):
    """Applies the named augmentations in order, as in "flip shift"; in training only."""

    def __init__(self, names: str = "", ways: Mapping[str, Way] = IMAGES, where: str = "model.stem.augment"):
        super().__init__()
        for name in names.split():
            if name not in ways:
                raise UserError(f"{where}: no '{name}'{suggestion(name, ways)}")
        self.ways = [ways[name] for name in names.split()]

    def forward(self, batch: Shaped[Tensor, "B *input"]) -> Shaped[Tensor, "B *input"]:
        if self.training:
            for way in self.ways:
                batch = way(batch)
        return batch
