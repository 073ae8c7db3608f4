"""Interventions: switch off parts of a model while it runs, or replace what they compute (activation patching).

A part has a name: `encoder.0.self.head.3`, `decoder.1`, `encoder.0.gate.forget@2` (`Part`). `intervene` replaces the
values of parts for the duration of a block; `record_activations` records them in a pass that changes nothing. Both use
the same hooks, so what was recorded fits where it is put.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.decoder._base import Decoder
from regard.errors import UserError, suggestion
from regard.layers.attention._base import Attention
from regard.layers.attention.multi_head import MultiHead
from regard.layers.cell._base import Cell
from regard.layers.kv_cache import CachePositions, KVCache
from regard.layers.observable import Observable
from regard.layers.recurrence import Recurrence
from regard.layers.ssru import SSRU

ENCODER, DECODER = "encoder", "decoder"
ZERO, MEAN = "zero", "mean"
SELF, CROSS, FEED_FORWARD, RECURRENCE, OUTPUT = "self", "cross", "feed_forward", "recurrence", "output"
EMBEDDING = "embedding"
SUBLAYERS = {SELF: "attention", CROSS: "cross_attention", FEED_FORWARD: "feed_forward", RECURRENCE: "recurrence"}
"""The sublayers of a Transformer's layer, and their modules."""
SSRU_GATES = ("forget", "candidate")

_NAME = re.compile(
    r"(?P<side>encoder|decoder)\.(?P<place>embedding|\d{1,4})(\.(?P<kind>[a-z_]+))?(\.(?P<gate>[a-z_]+))?"
    r"(\.(?P<unit>\d{1,6}))?(@(?P<position>\d{1,6}))?"
)

Values = Float[Tensor, "*A T N"]
"""What a site computes, for each position."""
Hook = Callable[[Values, Int[Tensor, "T"]], Values]
"""Called with values and the positions of their last axis but one; returns what to go on with."""


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


@dataclass(frozen=True)
class Intervention:
    """A part and what replaces its values: zeros, their mean (`with_means`), or recorded ones."""

    part: Part
    value: str | tuple[Tensor, ...] = ZERO
    """ "zero", or a tensor for each of the part's sites (`record_activations`): (N,) for all positions, or (T, N)."""

    def __str__(self) -> str:
        return f"{self.part} = {self.value if isinstance(self.value, str) else 'given'}"


@dataclass
class _Site:
    """One place in the model whose values are replaced: a part has one or, for a layer of several sublayers, more."""

    attach: Callable[[Hook], Any]
    """A context manager within which the hook is called."""
    lanes: slice = field(default_factory=lambda: slice(None))
    """The columns that belong to the part."""


@contextmanager
def intervene(model: nn.Module, interventions: Sequence[Intervention]) -> Iterator[None]:
    """Replaces values while a block runs.

    `with intervene(model, [Intervention(Part.parse("decoder.1.cross"))]): ...`. Without interventions the model is not
    touched, so the results are the same to the last bit. A position that was never reached is an error.

    Args:
        model: The module; for a loaded model, its `.model`.
        interventions: What to replace, and by what.

    Returns:
        A context manager.
    """
    reached = [False] * len(interventions)
    with ExitStack() as stack:
        if interventions:
            clocks = _clocks(model, stack)
            _without_cuda_graphs(model, stack)
        for number, one in enumerate(interventions):
            sites = _sites(model, one.part, clocks)
            if isinstance(one.value, str) and one.value != ZERO:
                raise UserError(f"{one}: a value is zero or recorded; use with_means for means")
            values = [None] * len(sites) if isinstance(one.value, str) else list(one.value)
            if len(values) != len(sites):
                raise UserError(f"{one.part}: {len(values)} values do not fit its {len(sites)} places")
            for site, value in zip(sites, values):
                stack.enter_context(site.attach(partial(_replace, reached, number, one.part, site.lanes, value)))
        yield
    for one, was in zip(interventions, reached):
        if one.part.position is not None and not was:
            raise UserError(f"{one.part}: the text has no position {one.part.position} there, counted from 0")
        if one.part.kind.startswith("gate ") and not was:
            raise UserError(f"{one.part}: this cell does not let its gates be edited (`Cell.edited`)")


def record_activations(
    model: nn.Module, parts: Sequence[Part], forward: Callable[[], Any]
) -> dict[Part, tuple[Float[Tensor, "T N"], ...]]:
    """Runs `forward` and records what these parts compute for the first example.

    Args:
        model: The module; for a loaded model, its `.model`.
        parts: What to record. Their positions are ignored: all are recorded.
        forward: Calls the model.

    Returns:
        For each part a tensor (T, N) per site, as an `Intervention` takes them. A part that was never computed, a step
        that halting made unnecessary, is left out.
    """
    found: dict[Part, list[list[tuple[Tensor, Tensor]]]] = {}
    with ExitStack() as stack:
        clocks = _clocks(model, stack)
        _without_cuda_graphs(model, stack)
        for part in dict.fromkeys(parts):
            found[part] = []
            for site in _sites(model, part, clocks):
                calls: list[tuple[Tensor, Tensor]] = []
                found[part].append(calls)
                stack.enter_context(site.attach(partial(_record, calls, site.lanes)))
        forward()
    return {part: tuple(_in_order(calls) for calls in sites) for part, sites in found.items() if all(sites)}


def with_means(
    model: nn.Module, parts: Sequence[Part], forwards: Sequence[Callable[[], Any]], mean: bool = True
) -> list[Intervention]:
    """Interventions that replace each part by its mean over all positions of some passes, or by zeros."""
    if not mean or not parts:
        return [Intervention(part) for part in parts]
    sums: dict[Part, tuple[Tensor, ...]] = {}
    count: dict[Part, int] = {}
    for forward in forwards:
        for part, sites in record_activations(model, parts, forward).items():
            totals = tuple(site.sum(0) for site in sites)
            sums[part] = tuple(map(torch.add, sums[part], totals)) if part in sums else totals
            count[part] = count.get(part, 0) + len(sites[0])
    return [
        Intervention(part, tuple(total / count[part] for total in sums[part])) if part in sums else Intervention(part)
        for part in parts
    ]


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
        for layer in range(_depth(stack)):
            own = LayerParts(side, layer)
            module = _layer(stack, layer)
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


# How values are replaced.


def _replace(
    reached: list[bool],
    number: int,
    part: Part,
    lanes: slice,
    value: Tensor | None,
    now: Values,
    positions: Int[Tensor, "T"],
) -> Values:
    """A hook of intervention `number`, which notes whether there was anything to replace."""
    positions = positions.to(now.device)
    rows = torch.ones_like(positions, dtype=torch.bool) if part.position is None else positions == part.position
    own = now[..., lanes]
    if value is None:
        new = torch.zeros_like(own)
    else:
        value = value.to(own)
        if value.shape[-1] != own.shape[-1]:
            raise UserError(f"{part}: a value of {value.shape[-1]} numbers does not fit its {own.shape[-1]}")
        if value.ndim == 2:  # a row for each position; later positions stay as they are
            rows = rows & (positions < len(value))
            value = value[positions.clamp(max=len(value) - 1)]
        new = value.expand_as(own)
    if not bool(rows.any()):
        return now
    reached[number] = True
    changed = now.clone()
    changed[..., lanes] = torch.where(rows[:, None], new, own)
    return changed


def _record(calls: list[tuple[Tensor, Tensor]], lanes: slice, now: Values, positions: Int[Tensor, "T"]) -> Values:
    """A hook that records the first example."""
    calls.append((positions.cpu(), now.detach().reshape(-1, *now.shape[-2:])[0][..., lanes].clone()))
    return now


def _in_order(calls: Sequence[tuple[Tensor, Tensor]]) -> Float[Tensor, "T N"]:
    """What was recorded, by position: a backward layer comes to the last one first, some decoders to one at a time."""
    positions, values = torch.cat([at for at, _ in calls]), torch.cat([value for _, value in calls])
    ordered = values.new_zeros(int(positions.max()) + 1, values.shape[-1])
    ordered[positions.to(values.device)] = values
    return ordered


# Where the values are computed.


class _Clock:
    """Which positions a side of the model is at: of the encoder always all, of a decoder those of the current step."""

    def __init__(self) -> None:
        self.run = 0
        """Counts the calls of this side, so that sites can count theirs from 0 in each."""
        self.start = 0
        self.length = 0

    def begin(self, start: int, length: int) -> None:
        self.run += 1
        self.start, self.length = start, length

    def positions(self, count: int) -> Tensor:
        return self.start + torch.arange(count)


class _Counter:
    """The calls of one site within the current call of its side."""

    def __init__(self, clock: _Clock) -> None:
        self._clock, self._run, self._calls = clock, 0, 0

    def next(self) -> int:
        if self._run != self._clock.run:
            self._run, self._calls = self._clock.run, 0
        self._calls += 1
        return self._calls - 1


def _clocks(model: nn.Module, stack: ExitStack) -> dict[str, _Clock]:
    clocks = {ENCODER: _Clock(), DECODER: _Clock()}
    encoder, decoder = getattr(model, ENCODER, None), getattr(model, DECODER, None)
    if isinstance(encoder, nn.Module):
        enter = encoder.register_forward_pre_hook(lambda _, given: clocks[ENCODER].begin(0, given[0].shape[1]))
        stack.callback(enter.remove)
    if isinstance(decoder, Decoder):
        advance = decoder.advance

        def advancing(ids: Tensor, state: Any) -> Any:
            clocks[DECODER].begin(int(state.position), ids.shape[1])
            return advance(ids, state)

        stack.enter_context(_method(decoder, "advance", advancing))
    return clocks


def _without_cuda_graphs(model: nn.Module, stack: ExitStack) -> None:
    """A replayed graph calls no hooks; a search uses none for modules with an observer (decoding/cuda_graph.py)."""
    if not any(parameter.is_cuda for parameter in model.parameters()):
        return
    for module in model.modules():
        if isinstance(module, Observable) and module.observer is None:
            module.observer = _ignore
            stack.callback(setattr, module, "observer", None)


def _ignore(what: str, value: Tensor) -> None:
    """An observer of nothing."""


def _depth(side: Any) -> int:
    if hasattr(side, "layers"):
        return len(side.layers)
    if hasattr(side, "layer"):
        return int(side.steps)
    recurrence = getattr(side, "recurrence", None)
    return recurrence.layers if isinstance(recurrence, Recurrence) else 0


def _layer(side: Any, layer: int) -> Any:
    """The module of a Transformer's layer; None in a recurrent stack."""
    return side.layers[layer] if hasattr(side, "layers") else getattr(side, "layer", None)


def _sites(model: nn.Module, part: Part, clocks: dict[str, _Clock]) -> list[_Site]:
    side, clock = getattr(model, part.side, None), clocks[part.side]
    if not isinstance(side, nn.Module):
        raise UserError(f"{part}: this model has no {part.side}")
    if part.layer is None:
        return [_embedding_site(side, clock)]
    depth = _depth(side)
    if not part.layer < depth:
        having = f"the layers 0 to {depth - 1}" if depth else "no layers"
        raise UserError(f"{part}: the {part.side} has {having}")
    module = _layer(side, part.layer)
    times = part.layer if hasattr(side, "layer") else None  # one layer, applied repeatedly
    recurrence = getattr(side, "recurrence", None)
    if part.kind == CROSS and module is None and part.layer == 0:
        module = side  # a recurrent decoder with attention
    of_gate = part.kind.startswith("gate ")
    if module is None and isinstance(recurrence, Recurrence) and (of_gate or part.kind in ("", OUTPUT)):
        return _cell_sites(recurrence, part, clock)
    if of_gate or (part.kind == "" and part.unit is not None):
        return _ssru_sites(getattr(module, "recurrence", None), part, clock)
    if part.kind == OUTPUT:
        return [_Site(partial(_output_hooked, module, clock, times))]
    there = {kind: getattr(module, name) for kind, name in SUBLAYERS.items() if getattr(module, name, None) is not None}
    if module is side:
        there = {CROSS: side.cross_attention} if hasattr(side, "cross_attention") else {}
    wanted = list(there) if part.kind == "" else [part.kind]
    if part.kind and part.kind not in there:
        raise UserError(f"{part}: this layer has no {part.kind}{suggestion(part.kind, there)}")
    if part.unit is not None or module is side:
        attention = there[part.kind]
        if not isinstance(attention, Attention):
            raise UserError(f"{part}: {part.kind} has no heads")
        head = part.unit or 0
        if head >= attention.heads:
            raise UserError(f"{part}: this attention has the heads 0 to {attention.heads - 1}")
        return [_head_site(attention, head, clock, times)]
    around = [getattr(module, f"around_{SUBLAYERS[kind]}").dropout for kind in wanted]
    return [_Site(partial(_output_hooked, one, clock, times)) for one in around]


def _embedding_site(side: nn.Module, clock: _Clock) -> _Site:
    if isinstance(side, Decoder):
        return _Site(partial(_output_hooked, side.embedding, clock, None))

    @contextmanager
    def attach(hook: Hook) -> Iterator[None]:
        def enter(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
            return (hook(given[0], torch.arange(given[0].shape[1])), *given[1:])

        handle = side.register_forward_pre_hook(enter)
        try:
            yield
        finally:
            handle.remove()

    return _Site(attach)


@contextmanager
def _output_hooked(module: nn.Module, clock: _Clock, application: int | None, hook: Hook) -> Iterator[None]:
    """Passes a module's output (B, T, N), or the first of several, through the hook."""
    counter = _Counter(clock)

    def leave(_: nn.Module, given: Any, output: Any) -> Any:
        if counter.next() != application and application is not None:
            return output
        first = output[0] if isinstance(output, tuple) else output
        changed = hook(first, clock.positions(first.shape[1]))
        return (changed, *output[1:]) if isinstance(output, tuple) else changed

    handle = module.register_forward_hook(leave)
    try:
        yield
    finally:
        handle.remove()


def _head_site(attention: Attention, head: int, clock: _Clock, application: int | None) -> _Site:
    """A head's weighted sum of values. The attention's methods say which positions it is called for."""
    if not isinstance(attention, MultiHead):

        @contextmanager
        def whole(hook: Hook) -> Iterator[None]:
            counter, old = _Counter(clock), attention.attend

            def attend(
                query: Tensor, projected: Any, mask: Tensor | None = None, positions: Tensor | None = None
            ) -> Tensor:
                output = old(query, projected, mask, positions)
                if counter.next() != application and application is not None:
                    return output
                return hook(output, torch.arange(output.shape[1]) if positions is None else positions)

            with _method(attention, "attend", attend):
                yield

        return _Site(whole)

    @contextmanager
    def attach(hook: Hook) -> Iterator[None]:
        counter, at = _Counter(clock), [torch.arange(0)]
        attend, self_attend, cached = attention.attend, attention.self_attend, attention.cached_self_attend

        def attending(query: Tensor, projected: Any, mask: Any = None, positions: Tensor | None = None) -> Tensor:
            at[0] = torch.arange(query.shape[1]) if positions is None else positions
            return attend(query, projected, mask, positions)

        def self_attending(x: Tensor, *more: Any, **others: Any) -> Tensor:
            at[0] = torch.arange(x.shape[1])
            return self_attend(x, *more, **others)

        def cached_attending(x: Tensor, cache: KVCache, positions: CachePositions) -> Tensor:
            at[0] = positions.of_queries
            return cached(x, cache, positions)

        def enter(_: nn.Module, given: tuple[Tensor, ...]) -> Any:
            if counter.next() != application and application is not None:
                return None
            return (hook(given[0], at[0]),)

        handle = attention.outward.register_forward_pre_hook(enter)
        with (
            _method(attention, "attend", attending),
            _method(attention, "self_attend", self_attending),
            _method(attention, "cached_self_attend", cached_attending),
        ):
            try:
                yield
            finally:
                handle.remove()

    wide = attention.head_width
    return _Site(attach, slice(head * wide, (head + 1) * wide))


def _cell_sites(recurrence: Recurrence, part: Part, clock: _Clock) -> list[_Site]:
    assert part.layer is not None
    cells, unit = recurrence.layer(part.layer), part.unit
    names = [*cells[0].gates]
    what = part.kind.removeprefix("gate ") if part.kind.startswith("gate ") else cells[0].parts[0]
    if part.kind.startswith("gate ") and what not in names:
        raise UserError(f"{part}: these cells have no gate '{what}'{suggestion(what, names)}")
    width = cells[0].width
    if unit is not None and unit >= width * len(cells):
        raise UserError(f"{part}: this layer has the units 0 to {width * len(cells) - 1}")
    sites = []
    for number, cell in enumerate(cells):
        if unit is not None and unit // width != number:
            continue
        lanes = slice(None) if unit is None else slice(unit % width, unit % width + 1)
        backwards = recurrence.backwards or number == 1
        sites.append(_Site(partial(_edited_cell, cell, what, clock, backwards), lanes))
    return sites


@contextmanager
def _edited_cell(cell: Cell, what: str, clock: _Clock, backwards: bool, hook: Hook) -> Iterator[None]:
    """A cell is called once per position, from the first or from the last."""
    counter = _Counter(clock)

    def edit(name: str, value: Tensor) -> Tensor:
        if name != what:
            return value
        step = counter.next()
        at = clock.start + (clock.length - 1 - step if backwards else step)
        return hook(value[:, None], torch.tensor([at]))[:, 0]

    with _editor(cell, edit):
        yield


def _ssru_sites(recurrence: Any, part: Part, clock: _Clock) -> list[_Site]:
    what = part.kind.removeprefix("gate ")
    if not isinstance(recurrence, SSRU) or what not in SSRU_GATES:
        have = SSRU_GATES if isinstance(recurrence, SSRU) else ()
        raise UserError(f"{part}: this layer has no {part.kind or 'units'}{suggestion(what, have)}")
    lanes = slice(None) if part.unit is None else slice(part.unit, part.unit + 1)

    @contextmanager
    def attach(hook: Hook) -> Iterator[None]:
        def edit(name: str, value: Tensor) -> Tensor:
            return hook(value, clock.positions(value.shape[1])) if name == what else value

        with _editor(recurrence, edit):
            yield

    return [_Site(attach, lanes)]


@contextmanager
def _editor(module: Observable, edit: Callable[[str, Tensor], Tensor]) -> Iterator[None]:
    """Adds an editor; those before it go first."""
    before = module.editor

    def both(what: str, value: Tensor) -> Tensor:
        return edit(what, value if before is None else before(what, value))

    module.editor = both
    try:
        yield
    finally:
        module.editor = before


@contextmanager
def _method(module: nn.Module, name: str, other: Callable[..., Any]) -> Iterator[None]:
    """Replaces a method of one module; these can be nested."""
    before = vars(module).get(name)
    setattr(module, name, other)
    try:
        yield
    finally:
        if before is None:
            delattr(module, name)
        else:
            setattr(module, name, before)
