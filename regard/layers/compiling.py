"""Layers that torch.compile may compile for training (compile_layers.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

active = False
"""True once layers were compiled in this process; attention and loss then use their Triton kernels."""


class Repeated(nn.Module):
    """A layer of a stack; it runs compiled in training only."""

    compiled: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.compiled is not None and self.training and torch.is_grad_enabled():
            return self.compiled(*args, **kwargs)
        return super().__call__(*args, **kwargs)
