"""How much of a gradient survives back-propagation through time in a plain RNN, an LSTM and a GRU.

The first number of a sequence must be reproduced after the last, with other numbers in between, and the loss is only
there. As the target is a number and not a class, a network that solves it cannot have lost the gradient on the way (one
that latches a class can). Gradients are autograd's; _bptt.py spells them out for the RNN, and a test compares the two.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.inspection.record.differentiable import capture_differentiable, through_time
from regard.lab._drawing import PALETTE, TILE, label_ends, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict, one_thread
from regard.lab._learning import counter
from regard.lab._numbers import median, number, ranged, rounded, shown
from regard.layers.cell._base import Cell
from regard.layers.cell.gru import GRU
from regard.layers.cell.lstm import LSTM
from regard.layers.cell.rnn import RNN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["GradientsThroughTime"]


@dataclass(frozen=True)
class Recipe:
    """All cells train alike: Adam, clipped gradients, sequences of 2 to `length` numbers."""

    length: int
    width: int
    steps: int
    learning_rate: float
    seeds: int
    unclipped_steps: int
    """Steps of plain gradient descent with and without clipping, from weights with exploding gradients."""
    batch: int = 64
    clip: float = 1.0


SIZES = {
    "tiny": Recipe(length=24, width=16, steps=250, learning_rate=0.01, seeds=1, unclipped_steps=40),
    "small": Recipe(length=60, width=32, steps=1200, learning_rate=0.005, seeds=3, unclipped_steps=400),
    "full": Recipe(length=100, width=64, steps=1700, learning_rate=0.004, seeds=3, unclipped_steps=400, batch=128),
}
CELLS: tuple[type[Cell], ...] = (RNN, LSTM, GRU)
SMALL_RADIUS, LARGE_RADIUS = 0.5, 2.0
DESCENT_RATE = 0.05
MEASURED_ON = 64
"""Sequences per gradient; the median over them is kept."""
VANISHED, KEPT = 1e-3, 10.0


class GradientsThroughTime(Experiment):
    claim = "Gradients through time vanish or explode in a plain RNN; LSTM and GRU keep them."
    lecture = "F8"
    threshold = (
        "From the last step back to the first, for every seed: the plain RNN's gradient falls below 1/1000 when its "
        "recurrent matrix has spectral radius 1/2 and also after training, and grows more than 10 times when it has "
        "radius 2; those of the trained LSTM (in its cell state) and GRU stay within a factor of 10."
    )
    code = (
        "regard.lab.gradients_through_time.gradients_at_every_step",
        "regard.layers.cell.rnn.RNN.step",
        "regard.layers.cell.lstm.LSTM.step",
        "regard.layers.cell.gru.GRU.step",
    )

    def run(self, size: str, setting: Setting) -> Numbers:
        with one_thread():
            return self._measured(SIZES[size], setting)

    def _measured(self, recipe: Recipe, setting: Setting) -> Numbers:
        total = recipe.seeds * (len(CELLS) * recipe.steps + 2 * recipe.unclipped_steps)
        advance = counter(setting, total)
        curves: list[Numbers] = []
        descents: list[Numbers] = []
        for seed in range(setting.seed, setting.seed + recipe.seeds):
            for radius in (SMALL_RADIUS, LARGE_RADIUS):
                network = Network(RNN, recipe, seed, setting.device, radius)
                curves += network.curves(f"RNN, radius {radius:g}", trained=False)
            for cell in CELLS:
                network = Network(cell, recipe, seed, setting.device)
                curves += network.curves(cell.__name__, trained=False)
                adam = torch.optim.Adam(network.parameters(), lr=recipe.learning_rate)
                network.train_with(adam, recipe.steps, recipe.clip, advance)
                curves += network.curves(cell.__name__, trained=True)
            for clip in (None, recipe.clip):
                network = Network(RNN, recipe, seed, setting.device, LARGE_RADIUS)
                descent = torch.optim.SGD(network.parameters(), lr=DESCENT_RATE)
                norms = network.train_with(descent, recipe.unclipped_steps, clip or math.inf, advance)
                descents.append({"seed": seed, "clip": clip} | norms | {"explained": network.explained()})
        return {"length": recipe.length, "width": recipe.width, "curves": curves, "descents": descents}

    def table(self, numbers: Numbers) -> list[list[str]]:
        head = ["network", "gradient of", "first/last, min", "max", "halfway", "explained", "largest", "after clipping"]
        rows = []
        for name, trained, state in _lines(numbers):
            found = _select(numbers, name, trained, state)
            firsts, halves = _firsts(found), [number(c["ratios"][numbers["length"] // 2]) for c in found]
            reached = shown(min(number(curve["explained"]) for curve in found)) if trained else "-"
            title = f"{_titled(name, trained)}, {'trained' if trained else 'untrained'}"
            rows.append([title, state, *map(shown, (min(firsts), max(firsts), median(halves))), reached, "-", "-"])
        for clip in {descent["clip"]: None for descent in numbers["descents"]}:
            found = [descent for descent in numbers["descents"] if descent["clip"] == clip]
            title = f"RNN, radius {LARGE_RADIUS:g}, " + (f"clipped at {clip:g}" if clip else "not clipped")
            before, after = (max(number(d[key]) for d in found) for key in ("largest", "largest_taken"))
            failed = any(descent["explained"] is None for descent in found)
            reached = "diverged" if failed else shown(min(descent["explained"] for descent in found))
            rows.append([title, "weights", "-", "-", "-", reached, shown(before), shown(after)])
        return [head, *rows]

    def verdict(self, numbers: Numbers) -> Verdict:
        def firsts(name: str, trained: bool, state: str = "h") -> list[float]:
            return _firsts(_select(numbers, name, trained, state))

        small, large = (firsts(f"RNN, radius {radius:g}", False) for radius in (SMALL_RADIUS, LARGE_RADIUS))
        plain, cell, gru = firsts("RNN", True), firsts("LSTM", True, "c"), firsts("GRU", True)
        vanishes = all(ratio < VANISHED for ratio in small + plain)
        explodes = all(ratio > KEPT for ratio in large)
        keeps = all(1 / KEPT <= ratio <= KEPT for ratio in cell + gru)
        return Verdict(
            vanishes and explodes and keeps,
            f"over {numbers['length'] - 1} steps the RNN's gradient is multiplied by {ranged(small)} at radius "
            f"{SMALL_RADIUS:g}, by {ranged(large)} at radius {LARGE_RADIUS:g} and by {ranged(plain)} after training; "
            f"the trained LSTM's by {ranged(cell)} and the trained GRU's by {ranged(gru)}, which they learn: before "
            f"training it is {ranged(firsts('LSTM', False, 'c'))} and {ranged(firsts('GRU', False))}",
            but="they have to learn it: an untrained GRU's vanish too" if max(firsts("GRU", False)) < VANISHED else "",
        )

    def figure(self, numbers: Numbers) -> Figure:
        figure, (before, after, descent) = panels(columns=3, width=4.4, height=3.8)
        _draw_curves(before, numbers, trained=False, title="Untrained")
        _draw_curves(after, numbers, trained=True, title="Trained")
        _draw_descents(descent, numbers)
        return figure


# ------------------------------------------------------------------------------------------------------- measuring


def gradients_at_every_step(
    cell: Cell, x: Float[Tensor, "B T I"], loss: Callable[[Tensor], Tensor]
) -> dict[str, Float[Tensor, "T B W"]]:
    """dL/dh_t (and dL/dc_t for an LSTM) of a loss on the last hidden state, through everything that follows t.

    The loss is a sum over sequences, so that each row's gradient is its own.
    """
    with capture_differentiable(cell) as states:
        outputs, _ = cell(x)
    return {part: found.transpose(0, 1) for part, found in through_time(loss(outputs[:, -1]), states).items()}


def sequences(rows: int, length: int, random: torch.Generator) -> tuple[Float[Tensor, "B T 2"], Float[Tensor, " B"]]:
    """Numbers between -1 and 1 with a marker on the first, and the target: the first number."""
    numbers = torch.rand(rows, length, generator=random) * 2 - 1
    marks = torch.zeros(rows, length)
    marks[:, 0] = 1
    return torch.stack([numbers, marks], dim=-1), numbers[:, 0].clone()


class Network(nn.Module):
    """A cell, and a linear output on its last hidden state."""

    def __init__(self, cell: type[Cell], recipe: Recipe, seed: int, device: torch.device, radius: float = 1.0):
        super().__init__()
        torch.manual_seed(seed)
        self.recipe, self.device = recipe, device
        self.cell = cell(2, recipe.width)
        self.line = nn.Linear(recipe.width, 1)
        with torch.no_grad():
            self.cell.recurrent.mul_(radius)  # initially orthogonal, with spectral radius 1
        self.to(device)
        self.random = torch.Generator().manual_seed(seed)
        self.held_out = self.batch(512, recipe.length)

    def batch(self, rows: int, length: int) -> tuple[Tensor, Tensor]:
        x, answers = sequences(rows, length, self.random)
        return x.to(self.device), answers.to(self.device)

    def forward(self, x: Float[Tensor, "B T 2"]) -> Float[Tensor, " B"]:
        return self.line(self.cell(x)[0][:, -1])[:, 0]

    def train_with(
        self, optimiser: torch.optim.Optimizer, steps: int, clip: float, advance: Callable[[], None]
    ) -> Numbers:
        """Trains, and returns the gradient norm at every step before and after clipping.

        Lengths vary: what is learnt from short sequences helps with long ones.
        """
        before, after = [], []
        for _ in range(steps):
            length = int(torch.randint(2, self.recipe.length + 1, (), generator=self.random))
            x, answers = self.batch(self.recipe.batch, length)
            optimiser.zero_grad()
            (self(x) - answers).square().mean().backward()
            before.append(nn.utils.clip_grad_norm_(self.parameters(), clip))
            after.append(nn.utils.get_total_norm([p.grad for p in self.parameters() if p.grad is not None]))
            optimiser.step()
            advance()
        norms, taken = torch.stack(before).cpu().double(), torch.stack(after).cpu().double()
        failed = (~norms.isfinite()).nonzero().flatten().tolist()
        whole = slice(failed[0] if failed else None)
        return {
            "failed_at": failed[0] + 1 if failed else None,
            "largest": rounded(norms[whole].max().item()),
            "largest_taken": rounded(taken[whole].max().item()),
            "norms": [rounded(norm) for norm in norms.tolist()],
        }

    @torch.no_grad()
    def explained(self) -> float | None:
        """R^2: 1 is perfect, 0 is no better than the mean."""
        x, answers = self.held_out
        return rounded((1 - (self(x) - answers).square().mean() / answers.var(correction=0)).item())

    def curves(self, name: str, trained: bool) -> Iterator[Numbers]:
        """The gradient norm at every step relative to the last, median over sequences, in float64."""
        there = torch.device("cpu") if self.device.type == "mps" else self.device  # which has no float64
        cell = copy.deepcopy(self.cell).to(there, torch.float64)
        line = copy.deepcopy(self.line).to(there, torch.float64)
        x, answers = (part[:MEASURED_ON].to(there, torch.float64) for part in self.held_out)
        found = gradients_at_every_step(cell, x, lambda last: (line(last)[:, 0] - answers).square().sum())
        for part, gradients in found.items():
            norms = gradients.norm(dim=-1)
            ratios = (norms / norms[-1]).median(dim=1).values.tolist()
            yield {
                "name": name,
                "trained": trained,
                "state": {"hidden": "h", "cell": "c"}[part],
                "explained": self.explained(),
                "ratios": [rounded(ratio) for ratio in ratios],
            }


# --------------------------------------------------------------------------------------------------------- showing

COLOURS = {"RNN": PALETTE[1], "LSTM": PALETTE[0], "GRU": PALETTE[2]}
FLOOR, CEILING = 1e-12, 1e7
"""Lower end of the figure, negligible to an optimiser."""


def _lines(numbers: Numbers) -> list[tuple[str, bool, str]]:
    """The measured networks, untrained before trained, one entry for all seeds."""
    found = {(curve["name"], curve["trained"], curve["state"]): None for curve in numbers["curves"]}
    return sorted(found, key=lambda line: line[1])


def _select(numbers: Numbers, name: str, trained: bool, state: str) -> list[Numbers]:
    wanted = (name, trained, state)
    return [curve for curve in numbers["curves"] if (curve["name"], curve["trained"], curve["state"]) == wanted]


def _firsts(curves: list[Numbers]) -> list[float]:
    """The factor of the gradient over the whole sequence, for each seed."""
    return [number(curve["ratios"][0]) for curve in curves]


def _titled(name: str, trained: bool) -> str:
    """The default RNN starts with an orthogonal matrix, which is stated where other initialisations are shown too."""
    return "RNN, radius 1" if name == "RNN" and not trained else name


def _draw_curves(axes: Axes, numbers: Numbers, trained: bool, title: str) -> None:
    backwards = range(numbers["length"])
    axes.axhspan(1 / KEPT, KEPT, color=TILE, zorder=0)
    axes.set(yscale="log", ylim=(FLOOR, CEILING), xlim=(0, backwards[-1]), title=title)
    axes.set(xlabel="steps back from the last", ylabel="gradient there / gradient at the last step")
    labels = []
    for name, _, state in (line for line in _lines(numbers) if line[1] == trained):
        each = [[number(r) for r in reversed(c["ratios"])] for c in _select(numbers, name, trained, state)]
        middle = [median(list(step)) for step in zip(*each)]
        colour = COLOURS[name.partition(",")[0]]
        style = "--" if "radius" in name or (name, state) == ("LSTM", "h") else "-"
        for ratios in each:
            axes.plot(backwards, ratios, style, color=colour, linewidth=0.8, alpha=0.35)
        axes.plot(backwards, middle, style, color=colour)
        label = f"{name} {state}" if name == "LSTM" else _titled(name, trained)
        labels.append((min(max(middle[-1], FLOOR), CEILING), f"{label}: {shown(middle[-1])}", colour))
    label_ends(axes, labels)


def _draw_descents(axes: Axes, numbers: Numbers) -> None:
    """The running maximum of the gradient norm, for each seed."""
    axes.set(yscale="log", title=f"Training the RNN from radius {LARGE_RADIUS:g}")
    axes.set(xlabel="step of gradient descent", ylabel="largest gradient of the weights so far")
    heights: dict[tuple[str, str], float] = {}
    for descent in numbers["descents"]:
        label, colour = ("before clipping", PALETTE[4]) if descent["clip"] else ("not clipped", COLOURS["RNN"])
        norms = [norm for norm in descent["norms"][: (descent["failed_at"] or 0) - 1 or None] if norm is not None]
        highest = list(accumulate(norms, max))
        axes.plot(range(1, len(highest) + 1), highest, color=colour, linewidth=1.4)
        if descent["failed_at"]:
            axes.plot(len(highest), highest[-1], "x", color=colour)
        if descent["clip"]:
            axes.axhline(descent["clip"], color=colour, linestyle="--", linewidth=1.4)
            heights["after clipping", colour] = descent["clip"]
        heights[label, colour] = max(highest[-1], heights.get((label, colour), 0))
    label_ends(axes, [(height, label, colour) for (label, colour), height in heights.items()])
