"""The arithmetic of one attention head for one query, recomputed stage by stage.

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
from regard.inspection.record.arithmetic.context_use import context_use, decoder_output
from regard.inspection.record.arithmetic.interception import Call, Intercepted, intercept, plain
from regard.inspection.record.arithmetic.query_origin import QueryOrigin, query_origin
from regard.inspection.record.arithmetic.stages import normalized, row
from regard.inspection.trace.arithmetic import Calculation, Stage
from regard.inspection.trace.base import CROSS, SOURCE, TARGET
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
    """The calculation of one head of the attention at `path` for one position, in the first example of `forward`.

    `forward` is one pass over whole texts, without a KV cache. `queries` and `keys` name the tokens and `layer` the
    layer; where one layer is applied repeatedly, `time` is the index of the application.
    """
    modules = dict(model.named_modules())
    intercepted = intercept(model, forward, path)
    home, _, name = path.rpartition(".")
    attention, decoder = modules[path], modules.get(home)
    assert isinstance(attention, Attention)  # interception refuses all else
    spell = arithmetic_of(attention)
    if spell is None:
        raise UserError(f"{path}: the arithmetic of {type(attention).__name__} is not available; try the view heads")
    call, place = _one(intercepted, isinstance(decoder, AttentionalDecoder), position, time)
    heads = attention.heads
    if not 0 <= head < heads:
        raise UserError(f"head {head}: this attention has the heads 0 to {heads - 1}")
    names = [keys[j] if j < len(keys) else str(j) for j in range(len(call.memory))]
    given = query_origin(modules, intercepted, path, call, place, time)
    stages, weights, made = spell(attention, call, place, head, names, given)
    differences = [_difference(made, call.output[place])]
    if isinstance(decoder, AttentionalDecoder):
        more, after = context_use(decoder, intercepted, home, position, made)
        differences.append(_difference(after, decoder_output(intercepted, home)[position]))
        stages += more
    elif residuals := intercepted.of(f"{home}.around_{name}"):
        more, after = _residual(modules[f"{home}.around_{name}"], given, made)
        differences.append(_difference(after, plain(residuals[time][1])[0, place]))
        stages += more
    return Calculation(
        path=path,
        kind=CROSS if name == "cross_attention" else SOURCE if path.startswith("encoder.") else TARGET,
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


def _one(intercepted: Intercepted, one_by_one: bool, position: int, time: int) -> tuple[Call, int]:
    """The call that a position was a query of, and its index among the queries: a recurrent decoder attends once per
    target token, others for all tokens at once."""
    if not one_by_one and not 0 <= time < len(intercepted.calls):
        raise UserError(f"time {time}: this layer is applied {len(intercepted.calls)} times, counted from 0")
    calls = intercepted.calls if one_by_one else [intercepted.calls[time]]
    places = [(call, place) for call in calls for place in range(len(call.query))]
    if not 0 <= position < len(places):
        raise UserError(f"position {position}: the positions are 0 to {len(places) - 1}")
    return places[position]


def _residual(residual: Any, given: QueryOrigin, made: Tensor) -> tuple[list[Stage], Tensor]:
    assert isinstance(residual, Residual)
    total = given.before + made
    said = "The output of the attention is added to its input: the residual connection."
    added = Stage("residual", "x + o", said, [row("x", given.before), row("o", made), row("x + o", total)])
    if residual.first:
        return [added], total
    said = "The sum is normalized: this is the input of the next sublayer."
    of = "x + o" if isinstance(residual.norm, nn.LayerNorm) else "(x + o)"
    after, normed = normalized(total, residual.norm, "out", of, said)
    return [added, after], normed


def _difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max()) if ours.shape == theirs.shape else math.inf
