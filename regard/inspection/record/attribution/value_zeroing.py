"""Value zeroing: what an output loses when every attention reads zeros where a word's or patch's values were.

The weights stay as they are, so this measures what attention carries, unlike occlusion, which also moves the weights.
Mohebbi et al. (2023) compare each layer's output by cosine distance; here it is the model's output that is compared, so
that all methods have one unit and one candidate can be explained against another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from regard.inspection.record.attribution._progress import report
from regard.inspection.record.attribution._subject import Found, Subject, Unit, batches
from regard.inspection.trace.base import SOURCE, TARGET
from regard.layers.attention._base import Attention, ProjectedMemory
from regard.layers.attention.multi_head import MultiHead

__all__ = ["value_zeroing"]


@torch.no_grad()
def value_zeroing(subject: Subject) -> Found:
    (whole,) = subject(subject.vectors)
    columns = []
    for units in batches(subject.units, subject.at_once):
        copies = {side: own.expand(len(units), -1, -1) for side, own in subject.vectors.items()}
        with zeroed_values(subject.model, kept_values(subject, units)):
            columns += [whole - row for row in subject(copies)]
        report(len(columns), len(subject.units))
    return Found(torch.stack(columns, 1).float().cpu().numpy())


def unsuitable(model: nn.Module) -> str:
    """Why this model cannot be explained by this method; empty if it can."""
    return "" if any(isinstance(one, Attention) for one in model.modules()) else "this model has no attention"


def kept_values(subject: Subject, units: Sequence[Unit]) -> dict[str, Bool[Tensor, "B N"]]:
    """For each unit a copy, in which the values of its tokens are not kept."""
    kept = {side: own.new_ones(len(units), own.shape[1], dtype=torch.bool) for side, own in subject.vectors.items()}
    for copy, unit in enumerate(units):
        kept[unit.side][copy, list(unit.tokens)] = False
    return kept


@contextmanager
def zeroed_values(model: nn.Module, kept: dict[str, Bool[Tensor, "B N"]]) -> Iterator[None]:
    """All attentions to a side read zeros where its values are not kept, layer after layer."""
    changed: list[tuple[nn.Module, str]] = []
    outermost: list[str] = []  # an attention may be made of another
    try:
        for path, module in model.named_modules():
            if not isinstance(module, Attention) or any(path.startswith(f"{outer}.") for outer in outermost):
                continue
            outermost.append(path)
            side = SOURCE if path.endswith("cross_attention") or path.startswith("encoder.") else TARGET
            if side not in kept:
                continue
            if isinstance(module, MultiHead):  # self-attention projects all three at once
                name = "attend_heads"
                setattr(module, name, _attending(module, kept[side]))
            else:
                name = "project_memory"
                setattr(module, name, _projecting(module, kept[side]))
            changed.append((module, name))
        yield
    finally:
        for module, name in changed:
            delattr(module, name)


def _attending(attention: MultiHead, kept: Bool[Tensor, "B N"]) -> Callable[..., Tensor]:
    attend = attention.attend_heads

    def attending(query: Tensor, key: Tensor, value: Tensor, *more: Any) -> Tensor:
        return attend(query, key, value * kept[..., None, None], *more)

    return attending


def _projecting(attention: Attention, kept: Bool[Tensor, "B N"]) -> Callable[..., ProjectedMemory]:
    project = attention.project_memory

    def projecting(memory: Tensor) -> ProjectedMemory:
        projected = project(memory)
        return {**projected, "value": projected["value"] * kept[..., None]}

    return projecting
