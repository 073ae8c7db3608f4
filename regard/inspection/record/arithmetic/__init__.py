"""The numbers of one attention head, for one token that looks: computed once more, spelled out stage by stage.

From the inputs of the attention in a forward pass (interception.py) and the weights of the module alone. The result is
compared with the module's own, which fused kernels computed for all positions at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.decoder.attentional import AttentionalDecoder
from regard.errors import UserError
from regard.inspection.record.arithmetic.attention import arithmetic_of
from regard.inspection.record.arithmetic.context_use import said_by, using
from regard.inspection.record.arithmetic.interception import Call, Heard, overhear, plain
from regard.inspection.record.arithmetic.query_origin import Coming, coming
from regard.inspection.record.arithmetic.stages import layer_norm, row
from regard.inspection.trace.arithmetic import Calculation, Stage
from regard.inspection.trace.base import CROSS, READING, WRITING
from regard.layers.attention._base import Attention
from regard.layers.residual import Residual


@torch.inference_mode()
def calculation(
    model: nn.Module,
    forward: Callable[[], Any],
    path: str,
    head: int,
    position: int,
    *,
    queries: Sequence[str] = (),
    keys: Sequence[str] = (),
    layer: int = 0,
    time: int = 0,
) -> Calculation:
    """What a head of the attention at `path` did for one position, of the first example that `forward` runs.

    `forward` is one pass over whole texts, without a cache. `queries` and `keys` are the tokens' names, `layer` is what
    the layer is called; where one layer is used again and again, `time` says which time is meant.
    """
    modules = dict(model.named_modules())
    heard = overhear(model, forward, path)
    home, _, name = path.rpartition(".")
    attention, decoder = modules[path], modules.get(home)
    assert isinstance(attention, Attention)  # interception refuses all else
    spell = arithmetic_of(attention)
    if spell is None:
        raise UserError(f"{path}: what {type(attention).__name__} computes is not spelled out; try the view heads")
    call, place = _one(heard, isinstance(decoder, AttentionalDecoder), position, time)
    heads = attention.heads
    if not 0 <= head < heads:
        raise UserError(f"head {head}: this attention has the heads 0 to {heads - 1}")
    names = [keys[j] if j < len(keys) else str(j) for j in range(len(call.memory))]
    given = coming(modules, heard, path, call, place, time)
    stages, weights, made = spell(attention, call, place, head, names, given)
    differences = [_apart(made, call.output[place])]
    if isinstance(decoder, AttentionalDecoder):
        more, after = using(decoder, heard, home, position, made)
        differences.append(_apart(after, said_by(heard, home)[position]))
        stages += more
    elif residuals := heard.of(f"{home}.around_{name}"):
        more, after = _residual(modules[f"{home}.around_{name}"], given, made)
        differences.append(_apart(after, plain(residuals[time][1])[0, place]))
        stages += more
    return Calculation(
        path=path,
        kind=CROSS if name == "cross_attention" else READING if path.startswith("encoder.") else WRITING,
        layer=layer,
        head=head,
        heads=heads,
        position=position,
        query=queries[position] if position < len(queries) else str(position),
        keys=names,
        weights=weights.numpy(),
        stages=[*given.stages, *stages],
        difference=max(differences),
    )


def _one(heard: Heard, one_by_one: bool, position: int, time: int) -> tuple[Call, int]:
    """The call in which a position looked, and which of its queries it was: a recurrent decoder looks once for each
    word that it writes, others for all of them at once."""
    if not one_by_one and not 0 <= time < len(heard.calls):
        raise UserError(f"time {time}: this layer was used {len(heard.calls)} times, counted from 0")
    calls = heard.calls if one_by_one else [heard.calls[time]]
    places = [(call, place) for call in calls for place in range(len(call.query))]
    if not 0 <= position < len(places):
        raise UserError(f"position {position}: there are the positions 0 to {len(places) - 1}")
    return places[position]


def _residual(residual: Any, given: Coming, made: Tensor) -> tuple[list[Stage], Tensor]:
    assert isinstance(residual, Residual)
    total = given.before + made
    said = "What was seen is added to what the token was before, so nothing of that is lost."
    added = Stage("residual", "x + o", said, [row("x", given.before), row("o", made), row("x + o", total)])
    if residual.first:
        return [added], total
    normed = layer_norm(total, residual.norm)
    said = "The sum is brought to an even size: this is what goes on."
    return [added, Stage("layer norm", "(x + o - mean) / √(variance + ε) · γ + β", said, [row("out", normed)])], normed


def _apart(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max()) if ours.shape == theirs.shape else math.inf
