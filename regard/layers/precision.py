"""The type that products are computed in."""

from __future__ import annotations

import torch
from torch import Tensor


def computed_in(like: Tensor) -> torch.dtype:
    """Autocast's where it is on, else that of the tensor."""
    device = like.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else like.dtype
