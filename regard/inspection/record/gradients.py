"""Record the gradients of one output, by a forward and backward pass of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from regard.inspection.record.differentiable import VECTOR, capture_differentiable, through_time
from regard.inspection.record.layers import recurrent_layer
from regard.inspection.trace.base import SOURCE, TARGET
from regard.inspection.trace.gradients import Gradients, Track


def gradients_of(
    model: nn.Module, log_probability: Callable[[], Tensor], position: int, token: str, lengths: Mapping[str, int]
) -> Gradients:
    """The gradient of `log_probability()` with respect to the model's embeddings and recurrent states.

    `lengths` are the tokens of each side that can matter: of the target only those before this output.
    `log_probability` runs the model and must create its own input tensors: those made in inference mode are of no use.
    """
    with torch.inference_mode(False), torch.enable_grad(), capture_differentiable(model) as captured:
        value = log_probability()
        found = through_time(value, captured)
    modules = dict(model.named_modules())
    tracks = []
    for name, gradients in found.items():
        path, _, what = name.rpartition(".")
        side = SOURCE if path.startswith(("encoder.", "stem.")) else TARGET
        layer, backwards = (0, False) if what == VECTOR else recurrent_layer(modules, path)
        norms = gradients[0].float().norm(dim=-1)
        norms = norms.flip(0) if backwards else norms
        tracks.append(Track(path, what, side, norms[: lengths[side]].cpu().numpy(), layer, backwards))
    tracks.sort(key=lambda track: (track.side != SOURCE, track.what != VECTOR))
    return Gradients(position, token, float(value.detach()), tracks)
