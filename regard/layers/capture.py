"""Collects what the layers of a model see while it runs.

Watching changes only speed: a layer that is watched spells out what it otherwise leaves to a fused kernel.
Knows nothing of what the tensors mean. A model is watched by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from regard.layers.observable import Observable

Seen = dict[str, list[Tensor]]
"""`encoder.layers.0.attention.weights` -> one tensor a call, in the order of the calls."""

Observer = Callable[[str, Tensor], None]


@contextmanager
def capture(model: nn.Module) -> Iterator[Seen]:
    """`with capture(model) as seen:` fills `seen` while the block runs; captures may be nested, and all of them see."""
    seen: Seen = {}
    watched = {name: module for name, module in model.named_modules() if isinstance(module, Observable)}
    before = {name: module.observer for name, module in watched.items()}
    try:
        for name, module in watched.items():
            module.observer = _recorder(seen, name, before[name])
        yield seen
    finally:
        for name, module in watched.items():
            module.observer = before[name]


def _recorder(seen: Seen, module: str, outer: Observer | None) -> Observer:
    def record(what: str, value: Tensor) -> None:
        # A copy: the layer may go on to write into its own tensor.
        seen.setdefault(f"{module}.{what}".lstrip("."), []).append(value.detach().clone())
        if outer is not None:
            outer(what, value)

    return record
