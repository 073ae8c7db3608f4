"""Integrated gradients (Sundararajan, Taly and Yan 2017): gradients along the straight path from the baseline, summed.

Along the path the values of a row must sum to output(x) - output(baseline) (completeness). The path is cut into
sections, each integrated by Gauss-Legendre quadrature. The outputs at both ends of a section say how wrong its sum is,
so the worst section is halved, and again, until the error of every row is below 1 % or the points run out.

Completeness is necessary, not sufficient: errors of two columns may cancel in the sum of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.inspection.record.attribution._progress import report
from regard.inspection.record.attribution._subject import Found, Subject, Vectors
from regard.inspection.trace.attribution import COMPLETE

__all__ = ["integrated_gradients"]

POINTS = 8
"""Points of a section."""
FIRST = 4
"""Sections to begin with."""
MOST = 512
"""Points after which no section is halved any more."""
NODES, WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(POINTS))


@dataclass
class Section:
    """A part of the path: its ends, and for each output the outputs there and the integral (outputs, units)."""

    start: float
    end: float
    at_start: np.ndarray
    at_end: np.ndarray
    integral: np.ndarray

    @property
    def error(self) -> np.ndarray:
        return self.integral.sum(1) - (self.at_end - self.at_start)


def integrated_gradients(subject: Subject) -> Found:
    path = Path(subject)
    ends = np.linspace(0, 1, FIRST + 1)
    sections = path.sections([*zip(ends[:-1], ends[1:])], np.arange(len(subject.outputs)))
    while True:
        change = np.maximum(np.abs(sections[-1].at_end - sections[0].at_start), np.finfo(np.float32).tiny)
        errors = np.stack([section.error for section in sections])
        rows = np.flatnonzero(np.abs(errors.sum(0)) >= COMPLETE * change)
        if not len(rows) or path.steps >= MOST:
            break
        for worst in sorted({int(np.abs(errors[:, row]).argmax()) for row in rows}, reverse=True):
            sections[worst : worst + 1] = path.halves(sections[worst], rows)
    values = sum(section.integral for section in sections)
    return Found(np.asarray(values, np.float32), float((np.abs(errors.sum(0)) / change).max()), path.steps)


class Path:
    """The straight path from the baseline to the actual vectors."""

    def __init__(self, subject: Subject):
        self.subject = subject
        self.baseline = subject.baseline()
        self.way = {side: own - self.baseline[side] for side, own in subject.vectors.items()}
        self.size = subject.at_once
        self.steps = 0
        """Points whose gradients were computed."""

    def sections(self, ends: Sequence[tuple[float, float]], rows: np.ndarray) -> list[Section]:
        """Sections with these ends; the integrals of rows that are not named are zero."""
        at = sorted({place for pair in ends for place in pair})
        with torch.no_grad():
            values = dict(zip(at, self._values(at)))
        return [Section(*pair, values[pair[0]], values[pair[1]], self._integral(*pair, rows)) for pair in ends]

    def halves(self, section: Section, rows: np.ndarray) -> list[Section]:
        """Only these rows are computed again; the others keep their integral, all in the first half."""
        middle = (section.start + section.end) / 2
        found = self.sections([(section.start, middle), (middle, section.end)], rows)
        others = np.setdiff1d(np.arange(len(section.integral)), rows)
        found[0].integral[others] = section.integral[others]
        return found

    def _values(self, places: Sequence[float]) -> list[np.ndarray]:
        parts = [places[first : first + self.size] for first in range(0, len(places), self.size)]
        return [row.double().cpu().numpy() for part in parts for row in self.subject(self._vectors(part))]

    def _integral(self, start: float, end: float, rows: np.ndarray) -> np.ndarray:
        """(outputs, units)"""
        places = (start + (end - start) * (0.5 + NODES)).tolist()
        weights = torch.from_numpy(WEIGHTS * (end - start))
        found = np.zeros((len(self.subject.outputs), len(self.subject.units)))
        for first in range(0, POINTS, self.size):
            part = slice(first, first + self.size)
            found[rows] += self._sum(places[part], weights[part], rows)
        self.steps += POINTS
        report(self.steps, max(self.steps, MOST))
        return found

    def _sum(self, places: Sequence[float], weights: Tensor, rows: np.ndarray) -> np.ndarray:
        vectors = {side: own.requires_grad_() for side, own in self._vectors(places).items()}
        inputs = list(vectors.values())
        values = self.subject(vectors)
        found = []
        for row in rows.tolist():
            # The copies are independent, so the gradient of their sum holds that of each.
            slopes = torch.autograd.grad(values[:, row].sum(), inputs, retain_graph=True, materialize_grads=True)
            along = [(way * slope).double().sum(-1) for way, slope in zip(self.way.values(), slopes)]
            found.append([(one * weights.to(one.device)[:, None]).sum(0) for one in along])
        return self.subject.by_unit({side: torch.stack(own) for side, own in zip(vectors, zip(*found))})

    def _vectors(self, places: Sequence[float]) -> Vectors:
        return {
            side: own + torch.tensor(list(places), dtype=own.dtype, device=own.device)[:, None, None] * self.way[side]
            for side, own in self.baseline.items()
        }
