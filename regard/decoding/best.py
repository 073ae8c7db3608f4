"""A faster top-k over a vocabulary, which every search needs in every step."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

GROUP = 24


def best(scores: Float[Tensor, "R V"], count: int) -> tuple[Float[Tensor, "R count"], Int[Tensor, "R count"]]:
    """`topk`, largest first, in two rounds: the `count` largest scores lie in the `count` groups with the largest
    maxima, so only those groups are sorted. Several times as fast for a vocabulary of thousands."""
    rows, size = scores.shape
    groups = size // GROUP
    if groups < 4 * count or (count == 1 and scores.device.type != "cpu"):
        values, indices = scores.max(1, keepdim=True) if count == 1 else scores.topk(count)
        return values, indices
    # Group g holds the columns g, g + groups, g + 2 * groups, ...: maxima of neighbouring groups are then vectorised.
    maxima = scores[:, : groups * GROUP].view(rows, GROUP, groups).amax(1)
    chosen = maxima.topk(count, sorted=False).indices
    grouped = (chosen[:, None] + torch.arange(GROUP, device=scores.device)[:, None] * groups).flatten(1)
    rest = torch.arange(groups * GROUP, size, device=scores.device).expand(rows, -1)
    indices = torch.cat([grouped, rest], 1)
    values, order = scores.gather(1, indices).topk(count)
    return values, indices.gather(1, order)
