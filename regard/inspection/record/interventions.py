"""Interventions: switch off parts of a model while it runs, or replace what they compute (activation patching).

A part has a name: `encoder.0.self.head.3`, `decoder.1`, `encoder.0.gate.forget@2` (`Part`). `intervene` replaces the
values of parts for the duration of a block; `record_activations` records them in a pass that changes nothing. Both use
the same hooks, so what was recorded fits where it is put.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import UserError
from regard.inspection.record.intervention_sites import Values, clocks_of, sites_of, without_cuda_graphs
from regard.inspection.record.parts import Part

ZERO = "zero"


@dataclass(frozen=True)
class Intervention:
    """A part and what replaces its values: zeros, their mean (`with_means`), or recorded ones."""

    part: Part
    value: str | tuple[Tensor, ...] = ZERO
    """ "zero", or a tensor for each of the part's sites (`record_activations`): (N,) for all positions, or (T, N)."""

    def __str__(self) -> str:
        return f"{self.part} = {self.value if isinstance(self.value, str) else 'given'}"


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
            clocks = clocks_of(model, stack)
            without_cuda_graphs(model, stack)
        for number, one in enumerate(interventions):
            sites = sites_of(model, one.part, clocks)
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
        clocks = clocks_of(model, stack)
        without_cuda_graphs(model, stack)
        for part in dict.fromkeys(parts):
            found[part] = []
            for site in sites_of(model, part, clocks):
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
