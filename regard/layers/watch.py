"""How a layer lets itself be watched. It knows nothing of who watches, or why."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn


class Watched(nn.Module):
    """A module that tells its watcher, when it has one, the values worth seeing; unwatched it may take a faster way."""

    watcher: Callable[[str, Tensor], None] | None = None
