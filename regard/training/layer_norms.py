"""How large the gradient is in each layer: what a person looks at when a training does not learn.

A layer is a readable group of parameters, found by their names. Knows nothing of models.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from regard.training.sharding import local


def layer_of(parameter: str) -> str:
    """`encoder.layers.0` of all that is in it; without a number at most two words: `decoder.embedding`, `head`."""
    path = parameter.split(".")[:-1] or [parameter]
    number = next((place for place, word in enumerate(path) if word.isdecimal()), None)
    return ".".join(path[:2] if number is None else path[: number + 1])


def gradient_norms(parameters: Iterable[nn.Parameter]) -> Tensor:
    """Of each parameter's gradient, or of this rank's share of it; 0 where there is none. Waits for nothing."""
    own = list(parameters)
    gradients = [local(p.grad) for p in own if p.grad is not None]
    norms = iter(torch._foreach_norm(gradients) if gradients else ())
    nothing = torch.zeros((), device=own[0].device)
    return torch.stack([nothing if p.grad is None else next(norms).float() for p in own])


def by_layer(names: Iterable[str], norms: Sequence[float]) -> dict[str, float]:
    """The parameters' norms put together, in the order of the model."""
    together: dict[str, list[float]] = {}
    for name, norm in zip(names, norms, strict=True):
        together.setdefault(layer_of(name), []).append(norm)
    return {layer: math.hypot(*parts) for layer, parts in together.items()}
