"""The gradients of one output, found by a pass of its own: what is looked at otherwise is not differentiated."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from regard.inspection.draw.gradients import Gradients, Track
from regard.inspection.record.differentiable import VECTOR, following, through_time
from regard.inspection.trace.base import READING, WRITING
from regard.layers.recurrence import Recurrence


def gradients_of(
    model: nn.Module, told: Callable[[], Tensor], position: int, token: str, lengths: Mapping[str, int]
) -> Gradients:
    """How much `told`, a log-probability that the model gives to one text, changes with what it had at each token.

    `lengths` are the tokens of each side that can count: of what is written only those before this output. What `told`
    feeds the model it makes itself, because a tensor made where nothing is differentiated cannot be used here.
    """
    with torch.inference_mode(False), torch.enable_grad(), following(model) as ways:
        value = told()
        found = through_time(value, ways)
    modules = dict(model.named_modules())
    tracks = []
    for name, gradients in found.items():
        path, _, what = name.rpartition(".")
        side = READING if path.startswith(("encoder.", "stem.")) else WRITING
        layer, backwards = (0, False) if what == VECTOR else _place(modules, path)
        norms = gradients[0].float().norm(dim=-1)
        norms = norms.flip(0) if backwards else norms
        tracks.append(Track(path, what, side, norms[: lengths[side]].cpu().numpy(), layer, backwards))
    tracks.sort(key=lambda track: (track.side != READING, track.what != VECTOR))
    return Gradients(position, token, float(value.detach()), tracks)


def _place(modules: dict[str, nn.Module], path: str) -> tuple[int, bool]:
    """Which layer a cell is, and whether it reads from the end."""
    home, _, number = path.rpartition(".cells.")
    stack = modules[home]
    assert isinstance(stack, Recurrence)
    layer, direction = divmod(int(number), stack.directions)
    return layer, stack.backwards or direction == 1
