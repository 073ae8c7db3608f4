"""Capture the tensors that the layers of a model compute, by the name of the module.

Capturing changes only speed: an observed layer computes step by step what it otherwise leaves to a fused kernel. A
model may be captured by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from regard.layers.observable import Observable

Captured = dict[str, list[Tensor]]
"""`encoder.layers.0.attention.weights` -> one tensor per call, in the order of the calls."""

Observer = Callable[[str, Tensor], None]


@contextmanager
def capture(model: nn.Module) -> Iterator[Captured]:
    """Records what the layers of a model compute while a block runs: `with capture(model) as captured:`.

    Captures can be nested; each of them records everything.

    Args:
        model: The module to observe; for a loaded model, its `.model`.

    Returns:
        A context manager that yields a dictionary: `encoder.layers.0.attention.weights` -> one tensor per call.
    """
    captured: Captured = {}
    observable = {name: module for name, module in model.named_modules() if isinstance(module, Observable)}
    before = {name: module.observer for name, module in observable.items()}
    try:
        for name, module in observable.items():
            module.observer = _collect(captured, name, before[name])
        yield captured
    finally:
        for name, module in observable.items():
            module.observer = before[name]


def _collect(captured: Captured, module: str, outer: Observer | None) -> Observer:
    def collect(what: str, value: Tensor) -> None:
        # A copy: the layer may overwrite its own tensor.
        captured.setdefault(f"{module}.{what}".lstrip("."), []).append(value.detach().clone())
        if outer is not None:
            outer(what, value)

    return collect
