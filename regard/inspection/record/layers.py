"""Captured tensors of one forward pass (layers/capture.py) as the plain data of trace/base.py."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from regard.inspection.trace.base import CROSS, SOURCE, TARGET, Attention, Gates, Ponder, Positions
from regard.inspection.trace.model_map import ModelMap, model_map
from regard.layers.attention._base import Attention as AttentionLayer
from regard.layers.capture import Captured
from regard.layers.cell._base import Cell
from regard.layers.halting import Halting
from regard.layers.position._base import Position
from regard.layers.position.none import NoPosition
from regard.layers.recurrence import Recurrence
from regard.layers.ssru import SSRU

POSITIONS = 64
"""Positions whose vectors are recorded, or as many as the longer text has."""


class Layers(TypedDict):
    """The fields of a trace that come from captured tensors, and from the model itself."""

    attention: list[Attention]
    gates: list[Gates]
    ponder: list[Ponder]
    positions: list[Positions]
    map: ModelMap


def layers_of(task: Any, captured: Captured, lengths: dict[str, int]) -> Layers:
    """All of them; `lengths` are the tokens of each side."""
    modules = dict(task.model.named_modules())
    shapes = {name: parameter.shape for name, parameter in task.model.named_parameters()}
    return {
        "attention": attention(modules, captured),
        "gates": gates(modules, captured, lengths),
        "ponder": ponder(modules, captured),
        "positions": positions(modules, max(POSITIONS, *lengths.values()), task.device),
        "map": model_map(task.recipe.model, shapes, task.recipe.task),
    }


def attention(modules: dict[str, nn.Module], captured: Captured) -> list[Attention]:
    """The weights of every attention layer."""
    found = []
    for name, calls in captured.items():
        path, _, what = name.rpartition(".")
        module = modules[path]
        if not isinstance(module, AttentionLayer) or what != "weights":
            continue
        kind = CROSS if path.endswith("cross_attention") else SOURCE if path.startswith("encoder.") else TARGET
        # A layer that is applied repeatedly gives the heads of all applications side by side.
        times = torch.cat(calls, 1)[0].split(module.heads)
        found += [Attention(path, kind, _layer(path) + time, _array(weights)) for time, weights in enumerate(times)]
    return found


def gates(modules: dict[str, nn.Module], captured: Captured, lengths: dict[str, int]) -> list[Gates]:
    """The gates and states of every recurrent layer."""
    found: dict[str, Gates] = {}
    for name, calls in captured.items():
        path, _, what = name.rpartition(".")
        if not isinstance(modules[path], (Cell, SSRU)):
            continue
        if path not in found:
            side = SOURCE if path.startswith("encoder.") else TARGET
            found[path] = Gates(path, side, *recurrent_layer(modules, path), {})
        found[path].values[what] = _array(torch.cat(calls, -2)[0, : lengths[found[path].side]])
    return list(found.values())


def ponder(modules: dict[str, nn.Module], captured: Captured) -> list[Ponder]:
    """The ponder times of every layer with adaptive computation time."""
    return [
        Ponder(
            path,
            SOURCE if path.startswith("encoder.") else TARGET,
            _array(captured[f"{path}.ponder"][0][0, :, 0]),
            _array(captured[f"{path}.shares"][0][0]),
        )
        for path, module in modules.items()
        if isinstance(module, Halting) and f"{path}.ponder" in captured
    ]


def positions(modules: dict[str, nn.Module], count: int, device: torch.device) -> list[Positions]:
    """Every positional encoding; modules with equal vectors are listed together."""
    found: list[Positions] = []
    for path, module in modules.items():
        if path.rpartition(".")[2] != "position" or not isinstance(module, Position) or isinstance(module, NoPosition):
            continue
        limit = count if module.limit is None else min(count, module.limit)
        indexes = torch.arange(limit, device=device)
        values = _array(module(indexes))
        same = [one for one in found if np.array_equal(one.values, values)]
        if same:
            same[0].paths.append(path)
        else:
            found.append(Positions([path], type(module).__module__.rpartition(".")[2], values))
    return found


def layer_gates(captured: Captured, layer: str, sentence: int = 0, words: int | None = None) -> dict[str, Tensor]:
    """The captured gates of one layer (`encoder.recurrence.cells.0`) for one sentence, by name: what gates_svg draws.

    Several calls, one per generated token, are joined; `words` cuts off padding.
    """
    own = {name.removeprefix(f"{layer}."): calls for name, calls in captured.items() if name.startswith(f"{layer}.")}
    return {name: torch.cat(calls, -2)[sentence, :words] for name, calls in own.items() if "." not in name}


def recurrent_layer(modules: dict[str, nn.Module], path: str) -> tuple[int, bool]:
    """The layer of the recurrence at `path`, and whether it reads backwards."""
    if isinstance(modules[path], SSRU):
        return _layer(path), False
    home, _, number = path.rpartition(".cells.")
    stack = modules[home]
    assert isinstance(stack, Recurrence)
    layer, direction = divmod(int(number), stack.directions)
    return layer, stack.backwards or direction == 1


def _array(values: Tensor) -> np.ndarray:
    return values.float().cpu().numpy()


def _layer(path: str) -> int:
    """The number in `decoder.layers.3.attention`; 0 where there is none."""
    return next((int(part) for part in reversed(path.split(".")) if part.isdecimal()), 0)
