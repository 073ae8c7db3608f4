"""The data type of matrix products."""

from __future__ import annotations

import torch
from torch import Tensor


def computed_in(like: Tensor) -> torch.dtype:
    """Autocast's type where it is enabled, else the tensor's."""
    device = like.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else like.dtype
