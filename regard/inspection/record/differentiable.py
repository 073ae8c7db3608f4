"""Capture what a model's output can be differentiated by: the embedding of each token, and every recurrent state.

`capture` (layers/capture.py) copies values; here they stay in the autograd graph, one tensor per step of a cell. An
observed cell computes step by step rather than in a fused kernel, so these tensors exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.cell._base import Cell
from regard.layers.embedding import TokenEmbedding

VECTOR = "vector"
"""The input embedding of a token: its row of the table, scaled, plus its position."""

Differentiable = dict[str, list[Tensor]]
"""`decoder.embedding.vector` -> (B, T, D) per call; `encoder.recurrence.cells.0.hidden` -> (B, W) per step."""


@contextmanager
def capture_differentiable(model: nn.Module) -> Iterator[Differentiable]:
    """`with capture_differentiable(model) as captured:` fills `captured`, for `through_time` to differentiate by."""
    captured: Differentiable = {}
    cells: list[Cell] = []
    hooks = []
    try:
        for path, module in model.named_modules():
            if isinstance(module, TokenEmbedding):
                hooks.append(module.register_forward_hook(_embedding_hook(captured, f"{path}.{VECTOR}")))
            elif isinstance(module, Cell):
                module.step = _capturing_step(captured, path, module)  # type: ignore[method-assign]
                if module.observer is None:
                    module.observer = _ignore
                cells.append(module)
        yield captured
    finally:
        for hook in hooks:
            hook.remove()
        for cell in cells:
            del cell.step
            if cell.observer is _ignore:
                cell.observer = None


def through_time(value: Float[Tensor, ""], captured: Differentiable) -> dict[str, Float[Tensor, "B T W"]]:
    """d value / d each embedding and state, through everything computed from it; zero where there is no path.

    Steps are in the order of computation: for a cell that reads backwards, the last token comes first.
    """
    flat = [tensor for tensors in captured.values() for tensor in tensors]
    found = iter(torch.autograd.grad(value, flat, allow_unused=True))
    gradients: dict[str, Tensor] = {}
    for name, tensors in captured.items():
        own = [torch.zeros_like(tensor) if (one := next(found)) is None else one for tensor in tensors]
        gradients[name] = torch.cat([one if one.ndim == 3 else one[:, None] for one in own], 1)
    return gradients


def _ignore(what: str, value: Tensor) -> None:
    """An observer that only makes a cell compute step by step."""


def _embedding_hook(captured: Differentiable, name: str) -> Callable[[nn.Module, Any, Tensor], Tensor]:
    def hook(module: nn.Module, inputs: Any, vectors: Tensor) -> Tensor:
        leaf = vectors.detach().requires_grad_()  # the gradient ends here, whatever the table is
        captured.setdefault(name, []).append(leaf)
        return leaf

    return hook


def _capturing_step(captured: Differentiable, path: str, cell: Cell) -> Callable[..., Any]:
    step = cell.step

    def capturing(*inputs: Any) -> Any:
        after, gates = step(*inputs)
        for part, state in zip(cell.parts, after):
            captured.setdefault(f"{path}.{part}".lstrip("."), []).append(state)
        return after, gates

    return capturing
