"""The numbers of what a user chose of a look: a kind of attention, a layer and head of it, and the token that looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from regard.errors import UserError, suggestion
from regard.inspection.record.arithmetic import calculation
from regard.inspection.trace.arithmetic import Calculation
from regard.inspection.trace.base import CROSS, Choice, Shown
from regard.inspection.trace.translation import among


def follower(model: nn.Module, forward: Callable[[], Any]) -> Callable[[Shown, Choice], Calculation]:
    """What a look's `calculate` is: `forward` is the pass over the whole text that was looked at."""

    def follow(seen: Shown, choice: Choice) -> Calculation:
        kinds = list(dict.fromkeys(one.kind for one in seen.attention))
        kind = choice.attention
        if kind not in kinds:
            if kind != CROSS:  # what is chosen where nobody chose
                raise UserError(f"this model has no attention '{kind}'{suggestion(kind, kinds)}")
            kind = kinds[0]
        layers = seen.of_kind(kind)
        layer = among(choice.layer or 0, len(layers), "layer")
        path = layers[layer].path
        return calculation(
            model,
            forward,
            path,
            choice.head or 0,
            choice.position or 0,
            queries=seen.queries(kind),
            keys=seen.keys(kind),
            layer=layer,
            time=sum(one.path == path for one in layers[:layer]),  # which use it is of a layer used again and again
        )

    return follow
