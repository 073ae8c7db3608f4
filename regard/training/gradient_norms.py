"""Gradient norms by layer, for the log: what one looks at when a training does not learn.

A layer is a group of parameters with a common name prefix. Knows nothing of models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn


def layer_of(parameter: str) -> str:
    """The layer of a parameter: its name up to the first number (`encoder.layers.0`), else its first two words at most
    (`decoder.embedding`, `head`)."""
    path = parameter.split(".")[:-1] or [parameter]
    number = next((place for place, word in enumerate(path) if word.isdecimal()), None)
    return ".".join(path[:2] if number is None else path[: number + 1])


def gradient_norms(parameters: Iterable[nn.Parameter], local: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """The norm of each parameter's gradient, 0 where there is none. Does not synchronize with the device.

    `local` gives this rank's shard of a gradient.
    """
    own = list(parameters)
    gradients = [local(p.grad) if local else p.grad for p in own if p.grad is not None]
    norms = iter(torch._foreach_norm(gradients) if gradients else ())
    nothing = torch.zeros((), device=own[0].device)
    return torch.stack([nothing if p.grad is None else next(norms).float() for p in own])


def by_layer(names: Iterable[str], norms: Sequence[float]) -> dict[str, float]:
    """The norms of layers from those of their parameters, in the order of the model."""
    together: dict[str, list[float]] = {}
    for name, norm in zip(names, norms, strict=True):
        together.setdefault(layer_of(name), []).append(norm)
    return {layer: math.hypot(*parts) for layer, parts in together.items()}
