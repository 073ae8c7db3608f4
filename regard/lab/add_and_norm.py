"""Add & Norm: how fast Transformers of several depths learn with and without residual connection and layer norm.

The package's encoder learns to predict at every position the letter before it. The wrapping of its sublayers varies:
norm(x + f(x)) as in the paper (post), x + f(norm(x)) (pre), only the sum, only the norm, or just f(x). Each variant has
the best of several learning rates. The measure is the number of steps until 90 % of held-out letters are right. One
layer is the control, where depth plays no role.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.encoder.transformer import TransformerEncoder
from regard.lab._drawing import FAINT, PALETTE, label_ends, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict, one_thread
from regard.lab._learning import counter, learn
from regard.lab._numbers import median, rounded
from regard.stem.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AddAndNorm"]


@dataclass(frozen=True)
class Recipe:
    depths: tuple[int, ...]
    """Layers; the first is the control, the last decides."""
    width: int
    length: int
    steps: int
    rates: tuple[float, ...]
    seeds: int
    letters: int = 8
    batch: int = 32
    every: int = 20
    """Steps between two evaluations on held-out sequences."""


SIZES = {
    "tiny": Recipe(depths=(1, 5), width=16, length=4, steps=200, rates=(8e-3,), seeds=1, letters=3, every=10),
    "small": Recipe(depths=(1, 2, 6), width=32, length=8, steps=800, rates=(1e-3, 3e-3), seeds=1),
    "full": Recipe(depths=(1, 2, 4, 8), width=32, length=10, steps=1000, rates=(1e-3, 3e-3), seeds=3),
}
POST, PRE, ADD, NORM, NEITHER = "Add & Norm, post", "Add & Norm, pre", "only add", "only norm", "neither"
WAYS = (POST, PRE, ADD, NORM, NEITHER)
LEARNT, MASTERED = 0.9, 0.99
"""Shares of correct letters: the goal that is counted to, and where training stops."""
FASTER = 2.0


class AddAndNorm(Experiment):
    title = "Add & Norm"
    claim = "Add & Norm speeds up learning."
    lecture = "F17"
    threshold = (
        "In the deepest Transformer, median over seeds, Add & Norm needs at most 1/2 of the steps to 90 % right "
        "letters that the same layers without both need, post and pre alike (who never gets there is counted with all "
        "its steps); with 1 layer (the control) those without both get there too, and neither post nor pre needs at "
        "most 1/2 of their steps."
    )
    code = (
        "regard.layers.residual.Residual",
        "regard.encoder.transformer.EncoderLayer",
        "regard.lab.add_and_norm.Around",
        "regard.lab.add_and_norm.curve",
    )

    def run(self, size: str, setting: Setting) -> Numbers:
        recipe = SIZES[size]
        seeds = range(setting.seed, setting.seed + recipe.seeds)
        advance = counter(setting, len(recipe.depths) * len(WAYS) * len(recipe.rates) * recipe.seeds * recipe.steps)
        with one_thread():
            curves = [
                {"depth": depth, "way": way, "rate": rate, "seed": seed}
                | {"right": curve(way, depth, rate, recipe, seed, setting.device, advance)}
                for depth in recipe.depths
                for way in WAYS
                for rate in recipe.rates
                for seed in seeds
            ]
        return {
            "depths": list(recipe.depths),
            "length": recipe.length,
            "letters": recipe.letters,
            "steps": recipe.steps,
            "every": recipe.every,
            "curves": curves,
        }

    def table(self, numbers: Numbers) -> list[list[str]]:
        rows = [["steps to 90 %", *(f"{depth} layers" if depth > 1 else "1 layer" for depth in numbers["depths"])]]
        return rows + [[way, *(_counted(numbers, way, depth) for depth in numbers["depths"])] for way in WAYS]

    def verdict(self, numbers: Numbers) -> Verdict:
        shallow, deep = _ends(numbers)
        times = {
            (way, depth): min(needed(numbers, NEITHER, depth), numbers["steps"]) / needed(numbers, way, depth)
            for depth in (shallow, deep)
            for way in (POST, PRE)
        }
        helps = all(times[way, deep] >= FASTER for way in (POST, PRE))
        learns_alone = math.isfinite(needed(numbers, NEITHER, shallow))
        flips = learns_alone and all(times[way, shallow] < FASTER for way in (POST, PRE))
        told = ", ".join(f"{_counted(numbers, way, deep)} ({way.split(', ')[1]})" for way in (POST, PRE))
        control = ", ".join(f"{_counted(numbers, way, shallow)} ({way.split(', ')[1]})" for way in (POST, PRE))
        return Verdict(
            helps and flips,
            f"with {deep} layers Add & Norm needs {told} steps until 90 % of the letters are right, the same layers "
            f"without both {_counted(numbers, NEITHER, deep)}; with {shallow} it needs {control}, and without both "
            f"{_counted(numbers, NEITHER, shallow)}",
        )

    def remark(self, numbers: Numbers) -> str:
        deep = numbers["depths"][-1]
        add, norm = (_counted(numbers, way, deep) for way in (ADD, NORM))
        return (
            f"Every way has the best of its learning rates, with a warm-up; whoever is not there after "
            f"{numbers['steps']:,} steps is written as more than that. Of the two halves, with {deep} layers, the sum "
            f"alone needs {add} steps and the norm alone {norm}."
        )

    def figure(self, numbers: Numbers) -> Figure:
        figure, axes = panels(columns=3, width=4.6, height=3.6)
        for panel, depth in zip(axes, _ends(numbers)):
            panel.set(title=f"{depth} layer{'s' if depth > 1 else ''}", xlabel="step", ylabel="letters right, %")
            panel.set(ylim=(0, 115), yticks=range(0, 101, 20))
            panel.axhline(100 * LEARNT, color=FAINT, linewidth=1)
            labels = []
            for way in WAYS:
                lines = [[100 * right for right in found["right"]] for found in best(numbers, way, depth)]
                for line in lines:
                    panel.plot(
                        [numbers["every"] * (i + 1) for i in range(len(line))], line, color=COLOURS[way], linewidth=1.4
                    )
                labels.append((median([line[-1] for line in lines]), way, COLOURS[way]))
            label_ends(panel, labels)
        steps = axes[2]
        steps.set(title="Steps to 90 %", xlabel="layers", ylim=(0, 1.4 * numbers["steps"]))
        labels = []
        for way in WAYS:
            counts = [min(needed(numbers, way, depth), 1.2 * numbers["steps"]) for depth in numbers["depths"]]
            steps.plot(numbers["depths"], counts, "o-", color=COLOURS[way], markersize=3)
            labels.append((counts[-1], way, COLOURS[way]))
        steps.axhline(numbers["steps"], color=FAINT, linewidth=1)
        steps.text(
            numbers["depths"][0], 1.03 * numbers["steps"], "above: not within all steps", color=FAINT, fontsize=8
        )
        steps.set_xticks(numbers["depths"], [str(depth) for depth in numbers["depths"]])
        label_ends(steps, labels)
        return figure


# ------------------------------------------------------------------------------------------------------- measuring


class Around(nn.Module):
    """`Residual` without norm, without the sum, or without both: x + f(x), norm(f(x)) or f(x)."""

    def __init__(self, width: int, add: bool, norm: bool):
        super().__init__()
        self.add = add
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Callable[[Tensor], Tensor]) -> Float[Tensor, "B T D"]:
        return self.norm(x + sublayer(x) if self.add else sublayer(x))


class Reader(nn.Module):
    """Embedding and positions, the encoder, and a linear output at every position."""

    def __init__(self, way: str, depth: int, recipe: Recipe, seed: int):
        super().__init__()
        torch.manual_seed(seed)
        width = recipe.width
        self.stem = Tokens(recipe.letters, width, dropout=0)
        norm = "pre" if way == PRE else "post"
        self.encoder = TransformerEncoder(width, depth, heads=4, feed_forward=4 * width, dropout=0, norm=norm)
        self.line = nn.Linear(width, recipe.letters)
        if way in (POST, PRE):
            return
        for layer in self.encoder.layers:
            for place in ("around_attention", "around_feed_forward"):
                setattr(layer, place, Around(width, add=way == ADD, norm=way == NORM))

    def forward(self, source: Int[Tensor, "B T"]) -> Float[Tensor, "B T L"]:
        mask = torch.ones_like(source, dtype=torch.bool)
        return self.line(self.encoder(*self.stem(source, mask)).states)


def before(source: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The targets: at every position the letter to the left, at the first position the first letter."""
    return torch.cat([source[:, :1], source[:, :-1]], dim=1)


def curve(
    way: str, depth: int, rate: float, recipe: Recipe, seed: int, device: torch.device, advance: Callable[[], None]
) -> list[float]:
    """The share of correct held-out letters after every `every` steps, until all are correct."""
    random = torch.Generator().manual_seed(seed)
    held_out = torch.randint(recipe.letters, (200, recipe.length), generator=random).to(device)
    network = Reader(way, depth, recipe, seed).to(device)
    found: list[float] = []

    def loss() -> Tensor:
        source = torch.randint(recipe.letters, (recipe.batch, recipe.length), generator=random).to(device)
        return F.cross_entropy(network(source).flatten(0, 1), before(source).flatten())

    def enough(done: int) -> bool:
        if done % recipe.every:
            return False
        with torch.no_grad():
            right = (network(held_out).argmax(-1) == before(held_out)).float().mean()
        found.append(rounded(float(right)) or 0.0)
        return found[-1] >= MASTERED

    learn(network, loss, recipe.steps, rate, advance, warmup=recipe.steps // 20, enough=enough)
    return found


# --------------------------------------------------------------------------------------------------------- showing

COLOURS = dict(zip(WAYS, (PALETTE[0], PALETTE[4], PALETTE[2], PALETTE[3], PALETTE[1])))


def steps_to(right: list[float], every: int) -> float:
    """The steps until LEARNT is first reached, or infinity."""
    return next((every * (place + 1) for place, share in enumerate(right) if share >= LEARNT), math.inf)


def best(numbers: Numbers, way: str, depth: int) -> list[Numbers]:
    """The curves of all seeds at the learning rate at which this variant is fastest, or else gets farthest."""
    found = [curve for curve in numbers["curves"] if (curve["way"], curve["depth"]) == (way, depth)]
    rates: dict[float, list[Numbers]] = {}
    for one in found:
        rates.setdefault(one["rate"], []).append(one)

    def slowness(curves: list[Numbers]) -> tuple[float, float]:
        steps = median([steps_to(one["right"], numbers["every"]) for one in curves])
        return steps, -median([one["right"][-1] for one in curves])

    return min(rates.values(), key=slowness)


def needed(numbers: Numbers, way: str, depth: int) -> float:
    """Steps to LEARNT, the median over seeds at the best rate."""
    return median([steps_to(one["right"], numbers["every"]) for one in best(numbers, way, depth)])


def _counted(numbers: Numbers, way: str, depth: int) -> str:
    steps = needed(numbers, way, depth)
    return f"{steps:,.0f}" if math.isfinite(steps) else f"more than {numbers['steps']:,}"


def _ends(numbers: Numbers) -> tuple[int, int]:
    return numbers["depths"][0], numbers["depths"][-1]
