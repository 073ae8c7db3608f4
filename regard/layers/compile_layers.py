"""Compiles the layers of a stack for a long training: once for all layers, all batches, forward and backward.

A whole model would take minutes to compile, and again for other shapes; a layer takes seconds, and all its sizes except
the width stay dynamic. Validation and inference, which have steps of many kinds, run uncompiled.
"""

from __future__ import annotations

import importlib.util
import warnings

import torch
from torch import nn

from regard.layers import compiling


def compile_layers(model: nn.Module) -> int:
    """Compiles the repeated layers of a model for training; returns their number. The first step takes longer."""
    import torch._inductor.config as inductor
    import torch.fx.experimental._config as shapes

    compiling.active = True
    if has_triton():
        import regard.layers.attention_kernels  # noqa: F401 # registers its operators with torch
    layers = [module for module in model.modules() if isinstance(module, compiling.Repeated)]
    warnings.filterwarnings("ignore", category=UserWarning, module="torch._inductor")  # meant for its developers
    shapes.use_duck_shape = False  # sizes that are equal in the first batch may differ in the next
    if hasattr(inductor.triton, "mix_order_reduction"):
        inductor.triton.mix_order_reduction = False  # two kernels are twice as fast as its one: the backward of a norm
    for layer in layers:
        layer.compiled = torch.compile(layer.forward, dynamic=True)
    return len(layers)


def has_triton() -> bool:
    """Whether Triton, which compiles kernels for a GPU, is installed."""
    return importlib.util.find_spec("triton") is not None
