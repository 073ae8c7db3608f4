"""The calculation of the attention head that a user chose: a kind of attention, a layer, a head and a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from regard.errors import UserError, suggestion
from regard.inspection.record.arithmetic import calculation
from regard.inspection.trace.arithmetic import Calculation
from regard.inspection.trace.base import CROSS, Choice, Trace, index_in


def calculator(model: nn.Module, forward: Callable[[], Any]) -> Callable[[Trace, Choice], Calculation]:
    """A trace's `compute_calculation`; `forward` runs the model on the whole input of the trace."""

    def compute(trace: Trace, choice: Choice) -> Calculation:
        kinds = list(dict.fromkeys(one.kind for one in trace.attention))
        kind = choice.attention
        if kind not in kinds:
            if kind != CROSS:  # the default
                raise UserError(f"this model has no attention '{kind}'{suggestion(kind, kinds)}")
            kind = kinds[0]
        layers = trace.of_kind(kind)
        layer = index_in(choice.layer or 0, len(layers), "layer")
        path = layers[layer].path
        return calculation(
            model,
            forward,
            path,
            choice.head or 0,
            choice.position or 0,
            queries=trace.queries(kind),
            keys=trace.keys(kind),
            layer=layer,
            time=sum(one.path == path for one in layers[:layer]),  # which application of a repeated layer
        )

    return compute
