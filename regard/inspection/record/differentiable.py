"""Keeps what a model's output can be differentiated by: the vector each token came in as, and every recurrent state.

`capture` copies values to look at; here they stay part of the computation, one tensor for each step of a cell. Watched
cells spell their equations out, so the steps are there. Knows nothing of what is asked of them.
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
"""What a token came in as: its row of the table, scaled, with its position."""

Ways = dict[str, list[Tensor]]
"""`decoder.embedding.vector` -> (B, T, D) a call; `encoder.recurrence.cells.0.hidden` -> (B, W) a step, as computed."""


@contextmanager
def following(model: nn.Module) -> Iterator[Ways]:
    """`with following(model) as ways:` fills `ways` while the block runs, for `through_time` to differentiate by."""
    ways: Ways = {}
    watched: list[Cell] = []
    hooks = []
    try:
        for path, module in model.named_modules():
            if isinstance(module, TokenEmbedding):
                hooks.append(module.register_forward_hook(_kept(ways, f"{path}.{VECTOR}")))
            elif isinstance(module, Cell):
                module.step = _told(ways, path, module)  # type: ignore[method-assign]
                if module.observer is None:
                    module.observer = _nothing
                watched.append(module)
        yield ways
    finally:
        for hook in hooks:
            hook.remove()
        for cell in watched:
            del cell.step
            if cell.observer is _nothing:
                cell.observer = None


def through_time(value: Float[Tensor, ""], ways: Ways) -> dict[str, Float[Tensor, "B T W"]]:
    """d value / d each vector and state, through everything that follows it; zero where nothing leads on from it.

    Steps stand in the order in which they were computed: of a cell that reads from the end, the last token first.
    """
    flat = [tensor for tensors in ways.values() for tensor in tensors]
    found = iter(torch.autograd.grad(value, flat, allow_unused=True))
    gradients: dict[str, Tensor] = {}
    for name, tensors in ways.items():
        own = [torch.zeros_like(tensor) if (one := next(found)) is None else one for tensor in tensors]
        gradients[name] = torch.cat([one if one.ndim == 3 else one[:, None] for one in own], 1)
    return gradients


def _nothing(what: str, value: Tensor) -> None:
    """Makes a cell spell its steps out; what it tells is told elsewhere."""


def _kept(ways: Ways, name: str) -> Callable[[nn.Module, Any, Tensor], Tensor]:
    def keep(module: nn.Module, given: Any, vectors: Tensor) -> Tensor:
        leaf = vectors.detach().requires_grad_()  # whatever the table is, a sum ends here
        ways.setdefault(name, []).append(leaf)
        return leaf

    return keep


def _told(ways: Ways, path: str, cell: Cell) -> Callable[..., Any]:
    step = cell.step

    def told(*given: Any) -> Any:
        after, gates = step(*given)
        for part, state in zip(cell.parts, after):
            ways.setdefault(f"{path}.{part}".lstrip("."), []).append(state)
        return after, gates

    return told
