"""Layers that report intermediate values (attention weights, gates) to an observer."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

Observer = Callable[[str, Tensor], None]


class Observable(nn.Module):
    """A module that passes intermediate values to its observer, if it has one; without, it may use a fused kernel."""

    observer: Observer | None = None
