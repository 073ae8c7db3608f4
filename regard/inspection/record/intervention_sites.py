"""Where in a running model the values of a part are computed: hooks that a caller can replace or record them with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.decoder._base import Decoder
from regard.errors import UserError, suggestion
from regard.inspection.record.parts import (
    CROSS,
    DECODER,
    ENCODER,
    OUTPUT,
    SSRU_GATES,
    SUBLAYERS,
    Part,
    depth_of,
    layer_of,
)
from regard.layers.attention._base import Attention
from regard.layers.attention.multi_head import MultiHead
from regard.layers.cell._base import Cell
from regard.layers.kv_cache import CachePositions, KVCache
from regard.layers.observable import Observable
from regard.layers.recurrence import Recurrence
from regard.layers.ssru import SSRU

Values = Float[Tensor, "*A T N"]
"""What a site computes, for each position."""
Hook = Callable[[Values, Int[Tensor, "T"]], Values]
"""Called with values and the positions of their last axis but one; returns what to go on with."""


@dataclass
class Site:
    """One place in the model whose values are replaced: a part has one or, for a layer of several sublayers, more."""

    attach: Callable[[Hook], Any]
    """A context manager within which the hook is called."""
    lanes: slice = field(default_factory=lambda: slice(None))
    """The columns that belong to the part."""


class Clock:
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

    def __init__(self, clock: Clock) -> None:
        self._clock, self._run, self._calls = clock, 0, 0

    def next(self) -> int:
        if self._run != self._clock.run:
            self._run, self._calls = self._clock.run, 0
        self._calls += 1
        return self._calls - 1


def clocks_of(model: nn.Module, stack: ExitStack) -> dict[str, Clock]:
    clocks = {ENCODER: Clock(), DECODER: Clock()}
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


def without_cuda_graphs(model: nn.Module, stack: ExitStack) -> None:
    """A replayed graph calls no hooks; a search uses none for modules with an observer (decoding/cuda_graph.py)."""
    if not any(parameter.is_cuda for parameter in model.parameters()):
        return
    for module in model.modules():
        if isinstance(module, Observable) and module.observer is None:
            module.observer = _ignore
            stack.callback(setattr, module, "observer", None)


def _ignore(what: str, value: Tensor) -> None:
    """An observer of nothing."""


def sites_of(model: nn.Module, part: Part, clocks: dict[str, Clock]) -> list[Site]:
    side, clock = getattr(model, part.side, None), clocks[part.side]
    if not isinstance(side, nn.Module):
        raise UserError(f"{part}: this model has no {part.side}")
    if part.layer is None:
        return [_embedding_site(side, clock)]
    depth = depth_of(side)
    if not part.layer < depth:
        having = f"the layers 0 to {depth - 1}" if depth else "no layers"
        raise UserError(f"{part}: the {part.side} has {having}")
    module = layer_of(side, part.layer)
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
        return [Site(partial(_output_hooked, module, clock, times))]
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
    return [Site(partial(_output_hooked, one, clock, times)) for one in around]


def _embedding_site(side: nn.Module, clock: Clock) -> Site:
    if isinstance(side, Decoder):
        return Site(partial(_output_hooked, side.embedding, clock, None))

    @contextmanager
    def attach(hook: Hook) -> Iterator[None]:
        def enter(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
            return (hook(given[0], torch.arange(given[0].shape[1])), *given[1:])

        handle = side.register_forward_pre_hook(enter)
        try:
            yield
        finally:
            handle.remove()

    return Site(attach)


@contextmanager
def _output_hooked(module: nn.Module, clock: Clock, application: int | None, hook: Hook) -> Iterator[None]:
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


def _head_site(attention: Attention, head: int, clock: Clock, application: int | None) -> Site:
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

        return Site(whole)

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
    return Site(attach, slice(head * wide, (head + 1) * wide))


def _cell_sites(recurrence: Recurrence, part: Part, clock: Clock) -> list[Site]:
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
        sites.append(Site(partial(_edited_cell, cell, what, clock, backwards), lanes))
    return sites


@contextmanager
def _edited_cell(cell: Cell, what: str, clock: Clock, backwards: bool, hook: Hook) -> Iterator[None]:
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


def _ssru_sites(recurrence: Any, part: Part, clock: Clock) -> list[Site]:
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

    return [Site(attach, lanes)]


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
