"""Occlusion (Zeiler and Fergus 2014): what an output loses when one word or patch is blanked out."""

from __future__ import annotations

import torch

from regard.inspection.record.attribution._progress import report
from regard.inspection.record.attribution._subject import Found, Subject, batches

__all__ = ["occlusion"]


@torch.no_grad()
def occlusion(subject: Subject) -> Found:
    """output(x) - output(x without the unit): a forward pass for each unit, whose vectors become zero."""
    (whole,) = subject(subject.vectors)
    columns: list[torch.Tensor] = []
    for units in batches(subject.units, subject.at_once):
        columns += [whole - row for row in subject(subject.without(units))]
        report(len(columns), len(subject.units))
    return Found(torch.stack(columns, 1).float().cpu().numpy())
