"""The effect of 1 / sqrt(d_k) in attention: entropy and gradient of the softmax as vectors get wider.

Queries and keys have mean 0 and variance 1, as after normalisation; their dot product then has variance d_k. The
package's attention divides by sqrt(d_k); to undo that, the query is scaled up first. The gradient is the norm of the
softmax Jacobian diag(p) - p p^T, which is 0 if one key has all the weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from regard.lab._drawing import PALETTE, TILE, label_ends, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict, one_thread
from regard.lab._numbers import ranged, rounded, shown
from regard.layers.attend import attention_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ScaledScores"]


@dataclass(frozen=True)
class Recipe:
    widths: tuple[int, ...]
    queries: int
    seeds: int
    keys: int = 32


SIZES = {
    "tiny": Recipe(widths=(4, 64, 4096), queries=100, seeds=2),
    "small": Recipe(widths=(4, 16, 64, 256, 1024, 4096), queries=300, seeds=5),
    "full": Recipe(widths=(4, 16, 64, 256, 1024, 4096), queries=1000, seeds=10),
}
WAYS = ("scaled", "not scaled")
TITLES = {
    "entropy": "Entropy of the weights, nats",
    "passes": "Norm of the softmax's Jacobian",
    "largest": "Largest weight",
}
LITTLE, FLAT = 0.2, 0.15
"""Not scaled, entropy and gradient must fall below this share of what they were; scaled, they may move by that much."""


class ScaledScores(Experiment):
    claim = "Scaling by 1 / sqrt(d_k) keeps the softmax of attention out of saturation."
    lecture = "F10"
    threshold = (
        "From the narrowest to the widest vectors and for every seed: without the scale, the entropy of the weights "
        "and the norm of the softmax's Jacobian fall below 20 % of what they were; with it (the control), both stay "
        "within 15 %."
    )
    code = ("regard.lab.scaled_scores.measured", "regard.layers.attend.attention_weights")

    def run(self, size: str, setting: Setting) -> Numbers:
        recipe = SIZES[size]
        found = []
        with one_thread():
            for done, width in enumerate(recipe.widths, 1):
                for seed in range(setting.seed, setting.seed + recipe.seeds):
                    random = torch.Generator().manual_seed(seed * 10_007 + width)
                    query = torch.randn(recipe.queries, 1, width, generator=random).to(setting.device)
                    key = torch.randn(recipe.queries, recipe.keys, width, generator=random).to(setting.device)
                    for way in WAYS:
                        longer = query if way == "scaled" else query * math.sqrt(width)
                        found.append({"way": way, "width": width, "seed": seed} | measured(longer, key))
                setting.progress(done, len(recipe.widths), "drawing vectors")
        return {"keys": recipe.keys, "widths": list(recipe.widths), "measured": found}

    def table(self, numbers: Numbers) -> list[list[str]]:
        widths = numbers["widths"]
        rows = [["", "", *(f"d_k = {width}" for width in widths)]]
        for key, title in ({"spread": "Spread of the scores"} | TITLES).items():
            rows += [[title, way, *(shown(_mean(numbers, way, width, key)) for width in widths)] for way in WAYS]
        return rows

    def verdict(self, numbers: Numbers) -> Verdict:
        left = {(way, key): shares(numbers, way, key) for way in WAYS for key in ("entropy", "passes")}
        saturates = all(share < LITTLE for key in ("entropy", "passes") for share in left["not scaled", key])
        flat = all(abs(share - 1) <= FLAT for key in ("entropy", "passes") for share in left["scaled", key])
        first, last = numbers["widths"][0], numbers["widths"][-1]
        return Verdict(
            saturates and flat,
            f"from d_k = {first} to {last} the entropy becomes {ranged(left['not scaled', 'entropy'])} and the "
            f"Jacobian {ranged(left['not scaled', 'passes'])} of what it was without the scale, "
            f"{ranged(left['scaled', 'entropy'])} and {ranged(left['scaled', 'passes'])} with it",
        )

    def figure(self, numbers: Numbers) -> Figure:
        figure, axes = panels(columns=3, width=4.2, height=3.6)
        for panel, (key, title) in zip(axes, TITLES.items()):
            panel.set(xscale="log", title=title, xlabel="$d_k$")
            if key == "entropy":
                most = math.log(numbers["keys"])
                panel.axhspan(0, most, color=TILE, zorder=0)
                panel.set(ylim=(0, most * 1.05))
            labels = []
            for way, colour in zip(WAYS, (PALETTE[0], PALETTE[1])):
                line = [_mean(numbers, way, width, key) for width in numbers["widths"]]
                panel.plot(numbers["widths"], line, "o-", color=colour, markersize=3)
                labels.append((line[-1], way, colour))
            panel.set_xticks(numbers["widths"], [str(width) for width in numbers["widths"]])
            panel.minorticks_off()
            if key != "entropy":
                panel.set_ylim(bottom=0)
            label_ends(panel, labels)
        return figure


# ------------------------------------------------------------------------------------------------------- measuring


def measured(query: Float[Tensor, "N 1 K"], key: Float[Tensor, "N S K"]) -> Numbers:
    """Means over queries of the entropy of the weights and the gradient of their softmax."""
    weights = attention_weights(query, key, None)[:, 0].double()
    scores = (query @ key.transpose(-2, -1))[:, 0].double() / math.sqrt(query.shape[-1])
    # |diag(p) - p p^T|^2 = sum p^2 - 2 sum p^3 + (sum p^2)^2
    squares, cubes = weights.square().sum(-1), weights.pow(3).sum(-1)
    passes = (squares - 2 * cubes + squares.square()).clamp(min=0).sqrt()
    return {
        "spread": rounded(float(scores.std())),
        "entropy": rounded(float(-(weights * weights.clamp(min=1e-300).log()).sum(-1).mean())),
        "largest": rounded(float(weights.amax(-1).mean())),
        "passes": rounded(float(passes.mean())),
    }


# --------------------------------------------------------------------------------------------------------- showing


def shares(numbers: Numbers, way: str, key: str) -> list[float]:
    """The ratio of the widest to the narrowest, for each seed."""
    first, last = numbers["widths"][0], numbers["widths"][-1]
    found = {(m["width"], m["seed"]): m[key] for m in numbers["measured"] if m["way"] == way}
    return [found[last, seed] / found[first, seed] for width, seed in found if width == first]


def _mean(numbers: Numbers, way: str, width: int, key: str) -> float:
    values = [m[key] for m in numbers["measured"] if (m["way"], m["width"]) == (way, width)]
    return sum(values) / len(values)
