"""Compiling what a long training repeats: a layer of a stack, once for all layers, all batches and both directions.

A whole model would take minutes to compile and again for other shapes; a layer takes seconds, and its sizes other than
the width stay open. Validation and use, whose steps are of many kinds, go on uncompiled.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

active = False
"""Whether layers were compiled in this process: then what else is worth it has kernels of its own, too
(attention_kernels.py, loss_kernel.py)."""


class Repeated(nn.Module):
    """A layer of a stack."""

    compiled: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.compiled is not None and self.training and torch.is_grad_enabled():
            return self.compiled(*args, **kwargs)
        return super().__call__(*args, **kwargs)


def compile_layers(model: nn.Module) -> int:
    """Compiles the repeated layers of a model for training; says how many there are. The first step takes longer."""
    import torch._inductor.config as inductor
    import torch.fx.experimental._config as shapes

    global active
    active = True
    if has_triton():
        import regard.layers.attention_kernels  # noqa: F401 # which torch then knows by name
    layers = [module for module in model.modules() if isinstance(module, Repeated)]
    warnings.filterwarnings("ignore", category=UserWarning, module="torch._inductor")  # advice to its developers
    shapes.use_duck_shape = False  # sizes that happen to be equal in the first batch need not be so in the next
    if hasattr(inductor.triton, "mix_order_reduction"):
        inductor.triton.mix_order_reduction = False  # one kernel for what two do twice as fast: the backward of a norm
    for layer in layers:
        layer.compiled = torch.compile(layer.forward, dynamic=True)
    return len(layers)


def has_triton() -> bool:
    """Whether kernels can be made for a GPU."""
    return importlib.util.find_spec("triton") is not None
