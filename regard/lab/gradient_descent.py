"""Gradient descent on f(x) = (x + 5)^2 from x = 3 step by step, and the effect of the learning rate.

f'(x) = 2 (x + 5), so a step with rate r multiplies the distance to the minimum by 1 - 2 r: x_t = -5 + 8 (1 - 2 r)^t.
Whether it converges, crawls, jumps or diverges is determined from the steps alone, without the formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.lab._drawing import PALETTE, label_ends, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["GradientDescent"]

START, MINIMUM = 3.0, -5.0
LECTURE_RATE = 0.01
LECTURE = (2.84, 2.6832)
RATES = (0.001, LECTURE_RATE, 0.1, 0.5, 0.9, 1.0, 1.1)
STEPS = {"tiny": 300, "small": 1000, "full": 10_000}
ARRIVED = 0.01
"""Distance from the minimum that counts as converged."""
CRAWLS = 250
"""More steps than this count as a crawl."""
FARTHEST = 1e12
"""A sequence this far away counts as diverged."""


class GradientDescent(Experiment):
    claim = (
        "Gradient descent on (x + 5)^2 from 3 with rate 0.01 goes 2.84, 2.6832, ...; with other rates it converges, "
        "crawls or diverges."
    )
    lecture = "F4"
    threshold = (
        "With rate 0.01 the first steps are 2.84 and 2.6832 to 12 digits; autograd and the derivative by hand give the "
        "same steps to 1e-9; rates 0.1, 0.5 and 0.9 come within 0.01 of the minimum in 250 steps, 0.001 does not, 1 is "
        "never nearer than at its start, and 1.1 goes a million times as far away."
    )
    code = ("regard.lab.gradient_descent.descend", "regard.lab.gradient_descent.slope")

    def run(self, size: str, setting: Setting) -> Numbers:
        runs = []
        for done, rate in enumerate(RATES, 1):
            points = descend(START, rate, STEPS[size], slope)
            by_autograd = descend(START, rate, STEPS[size], autograd_slope)
            far = [abs(point - MINIMUM) for point in points]
            runs.append(
                {
                    "rate": rate,
                    "points": [float(f"{point:.12g}") for point in points[:101]],
                    "steps": len(points) - 1,
                    "arrived": next((step for step, way in enumerate(far) if way <= ARRIVED), None),
                    "nearest": min(far),
                    "farthest": max(far),
                    "autograd_differs": max(abs(a - b) / max(1.0, abs(a)) for a, b in zip(points, by_autograd)),
                }
            )
            setting.progress(done, len(RATES), "descending")
        return {"runs": runs}

    def table(self, numbers: Numbers) -> list[list[str]]:
        rows = [["rate", "factor a step", "x1", "x2", "x3", "x10", "steps until there", "what it does"]]
        for run in numbers["runs"]:
            points = run["points"]
            after = "never" if run["arrived"] is None else str(run["arrived"])
            shown = [_short(points[at]) if at < len(points) else "-" for at in (1, 2, 3, 10)]
            rows.append([f"{run['rate']:g}", f"{1 - 2 * run['rate']:g}", *shown, after, _kind(run)])
        return rows

    def verdict(self, numbers: Numbers) -> Verdict:
        runs = {run["rate"]: run for run in numbers["runs"]}
        first = runs[LECTURE_RATE]["points"][1:3]
        kinds = {rate: _kind(run) for rate, run in runs.items()}
        held = (
            all(math.isclose(found, wanted, rel_tol=1e-12) for found, wanted in zip(first, LECTURE, strict=True))
            and all(run["autograd_differs"] <= 1e-9 for run in runs.values())
            and [kinds[rate] for rate in (0.1, 0.5, 0.9)]
            == ["converges", "converges in one step", "converges, jumping"]
            and kinds[0.001] == "crawls"
            and kinds[1.0] == "jumps for ever"
            and kinds[1.1] == "diverges"
        )
        told = ", ".join(f"{rate:g} {kind}" for rate, kind in kinds.items())
        return Verdict(held, f"the first steps are {first[0]:.10g} and {first[1]:.10g}; rate {told}")

    def figure(self, numbers: Numbers) -> Figure:
        figure, (curve, ways) = panels(columns=2, width=5.2, height=3.8)
        grid = [MINIMUM - 9 + 0.18 * i for i in range(101)]
        curve.plot(grid, [(x + 5) ** 2 for x in grid], color=PALETTE[0], linewidth=1.2)
        points = next(run for run in numbers["runs"] if run["rate"] == LECTURE_RATE)["points"]
        curve.plot(points, [(x + 5) ** 2 for x in points], "o", color=PALETTE[1], markersize=3)
        for at in (0, 1, 2):
            curve.annotate(
                f"$x_{at}$ = {points[at]:g}", (points[at], (points[at] + 5) ** 2), xytext=(12, -14 * at + 4),
                textcoords="offset points", color=PALETTE[1], va="center",
            )  # fmt: skip
        curve.set(title=f"Rate {LECTURE_RATE:g}, 100 steps", xlabel="x", ylabel="$(x + 5)^2$", xlim=(-14, 8))
        ways.set(title="By rate", xlabel="step", ylabel="distance from the minimum", yscale="log", ylim=(1e-6, 1e4))
        ways.set(xlim=(0, 50))
        labels = []
        for run, colour in zip(numbers["runs"], [*PALETTE, "#7a7490", "#9b2f6f"]):
            far = [max(abs(point - MINIMUM), 1e-6) for point in run["points"][:51]]
            style = "--" if 1 - 2 * run["rate"] < 0 else "-"  # 0.9 lies on 0.1: as near, but from the other side
            ways.plot(range(len(far)), far, style, color=colour, linewidth=1.6)
            labels.append((min(far[-1], 1e4), f"{run['rate']:g} {_kind(run).partition(',')[0]}", colour))
        label_ends(ways, labels)
        return figure


# ------------------------------------------------------------------------------------------------------- measuring


def slope(x: float) -> float:
    """d/dx (x + 5)^2, by hand."""
    return 2 * (x + 5)


def autograd_slope(x: float) -> float:
    """The derivative by autograd."""
    at: Tensor = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad((at + 5) ** 2, at)
    return float(found)


def descend(x: float, rate: float, steps: int, slope: Callable[[float], float]) -> list[float]:
    """Iterates x <- x - rate * f'(x); all points, including the first."""
    points = [x]
    for _ in range(steps):
        x = x - rate * slope(x)
        points.append(x)
        if abs(x - MINIMUM) > FARTHEST:
            break
    return points


# --------------------------------------------------------------------------------------------------------- showing


def _kind(run: Numbers) -> str:
    """The behaviour of a sequence, from its points alone."""
    begin = START - MINIMUM
    if run["farthest"] > 1e6 * begin:
        return "diverges"
    if run["arrived"] is None:
        return "jumps for ever" if run["nearest"] >= begin * (1 - 1e-9) else "crawls"
    if run["arrived"] > CRAWLS:
        return "crawls"
    if run["arrived"] == 1:
        return "converges in one step"
    return "converges, jumping" if run["points"][1] < MINIMUM else "converges"


def _short(value: float) -> str:
    return f"{value:.6g}"
