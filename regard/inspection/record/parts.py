"""The parts of a model that can be switched off or replaced, by name: `encoder.0.self.head.3`, `decoder.1@2`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from regard.errors import UserError
from regard.layers.attention._base import Attention
from regard.layers.recurrence import Recurrence
from regard.layers.ssru import SSRU

ENCODER, DECODER = "encoder", "decoder"
SELF, CROSS, FEED_FORWARD, RECURRENCE, OUTPUT = "self", "cross", "feed_forward", "recurrence", "output"
EMBEDDING = "embedding"
SUBLAYERS = {SELF: "attention", CROSS: "cross_attention", FEED_FORWARD: "feed_forward", RECURRENCE: "recurrence"}
"""The sublayers of a Transformer's layer, and their modules."""
SSRU_GATES = ("forget", "candidate")

_NAME = re.compile(
    r"(?P<side>encoder|decoder)\.(?P<place>embedding|\d{1,4})(\.(?P<kind>[a-z_]+))?(\.(?P<gate>[a-z_]+))?"
    r"(\.(?P<unit>\d{1,6}))?(@(?P<position>\d{1,6}))?"
)


@dataclass(frozen=True)
class Part:
    """A part of a model that can be switched off, by its name.

    `encoder.embedding`               the vectors that enter the encoder; `decoder.embedding` those of the target tokens
    `encoder.2`                       what layer 2 adds to the residual stream; of a recurrent layer its hidden state
    `encoder.2.self`, `.cross`, `.feed_forward`, `.recurrence`   what one sublayer adds
    `encoder.2.self.head.3`           one head's weighted sum of values, before the output projection
    `encoder.2.output`                the residual stream after the layer, or its hidden state
    `encoder.0.gate.forget`, `encoder.0.gate.forget.5`, `encoder.0.unit.5`   a gate, one unit of it, a unit of the state

    `@4` after any of them means position 4 alone. In a Universal Transformer the layers are the applications of its one
    layer; the units of a layer with two directions are those of the forward direction, then those of the backward one.
    """

    side: str
    layer: int | None = None
    """None: the embedding."""
    kind: str = ""
    """A sublayer, "output", "gate NAME", or "": the whole layer."""
    unit: int | None = None
    """A head, or a unit of a gate or state."""
    position: int | None = None

    def __str__(self) -> str:
        place = EMBEDDING if self.layer is None else str(self.layer)
        words = [self.side, place, *self.kind.split()]
        if self.unit is not None:
            words += ["head"] if self.kind in SUBLAYERS else [] if self.kind else ["unit"]
            words.append(str(self.unit))
        at = "" if self.position is None else f"@{self.position}"
        return ".".join(words) + at

    @classmethod
    def parse(cls, name: str) -> Part:
        """The part of a name such as `decoder.1.cross.head.0@3`."""
        found = _NAME.fullmatch(name.strip())
        refused = UserError(
            f"'{name[:60]}' is no part of a model; write it like encoder.0, encoder.0.self.head.3, "
            "decoder.1.feed_forward, encoder.0.gate.forget or encoder.embedding@2"
        )
        if found is None:
            raise refused
        side, place, kind, gate = found["side"], found["place"], found["kind"], found["gate"]
        unit, position = (None if found[one] is None else int(found[one]) for one in ("unit", "position"))
        if place == EMBEDDING:
            if kind or unit is not None:
                raise refused
            return cls(side, position=position)
        layer = int(place)
        if kind in SUBLAYERS and (gate is None) == (unit is None) and gate in (None, "head"):
            return cls(side, layer, kind, unit, position)
        if kind == "gate" and gate:
            return cls(side, layer, f"gate {gate}", unit, position)
        if (kind == "unit" and unit is not None or kind is None and unit is None) and not gate:
            return cls(side, layer, "", unit, position)
        if kind == OUTPUT and not gate and unit is None:
            return cls(side, layer, kind, None, position)
        raise refused


@dataclass
class LayerParts:
    """What can be switched off in one layer."""

    side: str
    layer: int
    heads: dict[str, int] = field(default_factory=dict)
    """The number of heads of each attention: "self", "cross"."""
    sublayers: list[str] = field(default_factory=list)
    gates: list[str] = field(default_factory=list)
    units: int = 0
    """Units of its gates and state."""


def parts_of(model: nn.Module) -> list[LayerParts]:
    """All layers of a model with their parts, in the order in which they run."""
    found = []
    for side in (ENCODER, DECODER):
        stack: Any = getattr(model, side, None)
        for layer in range(depth_of(stack)):
            own = LayerParts(side, layer)
            module = layer_of(stack, layer)
            for kind, name in SUBLAYERS.items():
                sublayer = getattr(module, name, None)
                if sublayer is None:
                    continue
                own.sublayers.append(kind)
                if isinstance(sublayer, Attention):
                    own.heads[kind] = sublayer.heads
                if isinstance(sublayer, SSRU):
                    own.gates, own.units = list(SSRU_GATES), stack.width
            if isinstance(recurrence := getattr(stack, "recurrence", None), Recurrence):
                cells = recurrence.layer(layer)
                own.gates, own.units = list(cells[0].gates), sum(cell.width for cell in cells)
                if isinstance(cross := getattr(stack, "cross_attention", None), Attention) and layer == 0:
                    own.heads[CROSS] = cross.heads
            found.append(own)
    return found


def head_parts(model: nn.Module) -> list[Part]:
    """Every head of every layer."""
    return [
        Part(one.side, one.layer, kind, head)
        for one in parts_of(model)
        for kind, heads in one.heads.items()
        for head in range(heads)
    ]


def layer_parts(model: nn.Module) -> list[Part]:
    return [Part(one.side, one.layer) for one in parts_of(model)]


def depth_of(side: Any) -> int:
    if hasattr(side, "layers"):
        return len(side.layers)
    if hasattr(side, "layer"):
        return int(side.steps)
    recurrence = getattr(side, "recurrence", None)
    return recurrence.layers if isinstance(recurrence, Recurrence) else 0


def layer_of(side: Any, layer: int) -> Any:
    """The module of a Transformer's layer; None in a recurrent stack."""
    return side.layers[layer] if hasattr(side, "layers") else getattr(side, "layer", None)
