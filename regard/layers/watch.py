"""How a layer lets itself be watched. It knows nothing of who watches, or why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Watched(nn.Module):
    """A module that tells its watcher, when it has one, the values worth seeing; unwatched it may take a faster way."""

    watcher: Callable[[str, Tensor], None] | None = None


@contextmanager
def told_together(modules: Iterable[nn.Module], axis: int = -2) -> Iterator[None]:
    """Steps of one call tell as one: what watched modules say of each position in the block is told joined at its end.

    Positions are the last axis but one, of attention weights and of gates alike. Where a step is all positions once
    more, it is the heads that stand side by side: axis 1.
    """
    watchers = {module: module.watcher for module in modules if isinstance(module, Watched) and module.watcher}
    said: dict[Watched, dict[str, list[Tensor]]] = {module: {} for module in watchers}
    try:
        for module, values in said.items():
            module.watcher = lambda what, value, values=values: values.setdefault(what, []).append(value)  # type: ignore[misc]
        yield
    finally:
        for module, watcher in watchers.items():
            module.watcher = watcher
    for module, watcher in watchers.items():
        for what, steps in said[module].items():
            watcher(what, torch.cat(steps, axis))
