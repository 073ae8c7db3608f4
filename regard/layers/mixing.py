"""Mixes the pictures of a batch in pairs; the labels then count in the same shares.

Both draw from torch's generators, which a resumed run restores. `mixup`: Zhang et al. 2018; `cutmix`: Yun et al. 2019.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.distributions import Beta

from regard.errors import UserError


class Mixed(NamedTuple):
    """Pictures of which a share is another's."""

    source: Float[Tensor, "B C H W"]
    other: Int[Tensor, "B"]
    """Which example each is mixed with."""
    share: Float[Tensor, ""]
    """How much is its own, and its own label's."""


class Mixing:
    """One of the two at random where both are asked for. 0: never; else a share is drawn from Beta(alpha, alpha)."""

    def __init__(self, mixup: float = 0.0, cutmix: float = 0.0):
        self.mixup, self.cutmix = mixup, cutmix

    def __bool__(self) -> bool:
        return bool(self.mixup or self.cutmix)

    def __call__(self, source: Shaped[Tensor, "B *input"]) -> Mixed:
        if source.ndim != 4 or not source.is_floating_point():
            raise UserError("model.mixup, model.cutmix: mix pictures, which this model does not read; leave them out")
        device = source.device
        other = torch.randperm(len(source), device=device)
        cuts = bool(self.cutmix) and (not self.mixup or bool(torch.rand(()) < 0.5))
        alpha = torch.tensor(self.cutmix if cuts else self.mixup)
        share = Beta(alpha, alpha).sample().to(device)
        if not cuts:
            return Mixed(share * source + (1 - share) * source[other], other, share)
        return cut(source, other, share, torch.rand(2))


def cut(
    source: Float[Tensor, "B C H W"], other: Int[Tensor, "B"], share: Float[Tensor, ""], centre: Float[Tensor, "2"]
) -> Mixed:
    """A rectangle of 1 - `share` of the area around `centre` (0 to 1) is the other picture's; what lies outside is cut
    off, and the share becomes that of the pixels."""
    inside = []
    for length, place in zip(source.shape[2:], centre.tolist()):
        half = length * (1 - share).sqrt() / 2
        positions = torch.arange(length, device=source.device) + 0.5
        inside.append((positions - place * length).abs() < half)
    rectangle = inside[0][:, None] & inside[1]
    return Mixed(torch.where(rectangle, source[other], source), other, 1 - rectangle.float().mean())
