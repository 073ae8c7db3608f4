"""One report for a layer that runs step by step, instead of one per step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.layers.observable import Observable


@contextmanager
def observe_jointly(modules: Iterable[nn.Module], axis: int = -2) -> Iterator[None]:
    """Concatenates what observable modules report step by step within the block into one report at its end.

    Positions are the last axis but one of attention weights and gates alike. Where each step covers all positions (a
    universal Transformer), the heads of the steps are placed side by side: axis 1.
    """
    observers = {module: module.observer for module in modules if isinstance(module, Observable) and module.observer}
    reports: dict[Observable, dict[str, list[Tensor]]] = {module: {} for module in observers}
    try:
        for module, values in reports.items():
            module.observer = lambda what, value, values=values: values.setdefault(what, []).append(value)  # type: ignore[misc]
        yield
    finally:
        for module, observer in observers.items():
            module.observer = observer
    for module, observer in observers.items():
        for what, steps in reports[module].items():
            observer(what, torch.cat(steps, axis))
