"""Captured tensors of one forward pass, turned into the plain data of trace/base.py."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from regard.inspection.trace.base import CROSS, READING, WRITING, Attention, Gates, Ponder, Positions
from regard.layers.attention._base import Attention as AttentionLayer
from regard.layers.capture import Seen
from regard.layers.cell._base import Cell
from regard.layers.halting import Halting
from regard.layers.position._base import Position
from regard.layers.position.none import NoPosition
from regard.layers.recurrence import Recurrence

POSITIONS = 64
"""Positions whose vectors are shown, or as many as the longer text has."""


def _array(values: Tensor) -> np.ndarray:
    return values.float().cpu().numpy()


def _layer(path: str) -> int:
    """The number in `decoder.layers.3.attention`; 0 where there is none."""
    return next((int(part) for part in reversed(path.split(".")) if part.isdecimal()), 0)


def attention(modules: dict[str, nn.Module], seen: Seen) -> list[Attention]:
    found = []
    for told, calls in seen.items():
        path, _, what = told.rpartition(".")
        module = modules[path]
        if not isinstance(module, AttentionLayer) or what != "weights":
            continue
        kind = CROSS if path.endswith("cross_attention") else READING if path.startswith("encoder.") else WRITING
        # A layer that is used several times tells the heads of all times side by side.
        times = torch.cat(calls, 1)[0].split(module.heads)
        found += [Attention(path, kind, _layer(path) + time, _array(weights)) for time, weights in enumerate(times)]
    return found


def gates(modules: dict[str, nn.Module], seen: Seen, lengths: dict[str, int]) -> list[Gates]:
    found: dict[str, Gates] = {}
    for told, calls in seen.items():
        path, _, what = told.rpartition(".")
        if not isinstance(modules[path], Cell):
            continue
        if path not in found:
            home, _, place = path.rpartition(".cells.")
            stack = modules[home]
            assert isinstance(stack, Recurrence)
            layer, direction = divmod(int(place), stack.directions)
            side = READING if path.startswith("encoder.") else WRITING
            found[path] = Gates(path, side, layer, stack.backwards or direction == 1, {})
        found[path].values[what] = _array(torch.cat(calls, -2)[0, : lengths[found[path].side]])
    return list(found.values())


def ponder(modules: dict[str, nn.Module], seen: Seen) -> list[Ponder]:
    return [
        Ponder(
            path,
            READING if path.startswith("encoder.") else WRITING,
            _array(seen[f"{path}.ponder"][0][0, :, 0]),
            _array(seen[f"{path}.shares"][0][0]),
        )
        for path, module in modules.items()
        if isinstance(module, Halting) and f"{path}.ponder" in seen
    ]


def positions(modules: dict[str, nn.Module], count: int, device: torch.device) -> list[Positions]:
    """Vectors that several modules have alike are told once."""
    found: list[Positions] = []
    for path, module in modules.items():
        if path.rpartition(".")[2] != "position" or not isinstance(module, Position) or isinstance(module, NoPosition):
            continue
        limit = count if module.limit is None else min(count, module.limit)
        places = torch.arange(limit, device=device)
        values = _array(module(places))
        same = [one for one in found if np.array_equal(one.values, values)]
        if same:
            same[0].paths.append(path)
        else:
            found.append(Positions([path], type(module).__module__.rpartition(".")[2], values))
    return found
