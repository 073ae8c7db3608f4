"""How much gradient reaches the first layer of a deep network, by activation function.

The networks are untrained, with the usual initialisation for each activation (Glorot's for sigmoid and tanh, He's for
piecewise linear ones), so that each is at its best. The gradient at every layer is compared with that at the last
hidden one.

The second half of the claim is about a single wrong output: p = sigmoid(z), the target is 0 and z is large. The slope
of (p - y)^2 is 2 (p - y) p (1 - p), that of cross-entropy p - y: only the first vanishes where p is confident.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.lab._drawing import PALETTE, TILE, label_ends, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict, one_thread
from regard.lab._numbers import median, number, ranged, rounded, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["VanishingWithDepth"]


@dataclass(frozen=True)
class Recipe:
    depths: tuple[int, ...]
    """Hidden layers; the first is the control, the last decides."""
    width: int
    seeds: int
    rows: int = 128
    classes: int = 10


SIZES = {
    "tiny": Recipe(depths=(2, 8, 20), width=48, seeds=2, rows=64),
    "small": Recipe(depths=(2, 4, 8, 12, 20), width=128, seeds=10),
    "full": Recipe(depths=(2, 4, 8, 12, 20, 30, 50), width=256, seeds=10),
}


@dataclass(frozen=True)
class Activation:
    apply: Callable[[Tensor], Tensor]
    gain: float
    """The gain that preserves the variance of the signal."""


LEAK = 0.01
RANDOM_LEAK = (1 / 8, 1 / 3)
"""The range of negative slopes of a randomised ReLU, drawn per unit and example in training (Xu et al. 2015)."""


def he_gain(mean_square_slope: float) -> float:
    """He et al. 2015, equation 15, for a negative slope whose square has this mean."""
    return math.sqrt(2 / (1 + mean_square_slope))


def _mean_square(low: float, high: float) -> float:
    """The mean square of a uniform random number."""
    return (low * low + low * high + high * high) / 3


ACTIVATIONS = {
    "sigmoid": Activation(torch.sigmoid, 1.0),
    "tanh": Activation(torch.tanh, 5 / 3),
    "ReLU": Activation(torch.relu, he_gain(0)),
    "leaky ReLU": Activation(lambda x: F.leaky_relu(x, LEAK), he_gain(LEAK**2)),
    "randomised ReLU": Activation(
        lambda x: F.rrelu(x, *RANDOM_LEAK, training=True), he_gain(_mean_square(*RANDOM_LEAK))
    ),
}
LOSSES = ("squared error", "cross-entropy")
STRAIGHT = ("ReLU", "leaky ReLU", "randomised ReLU")
VANISHED, KEPT = 1e-3, 10.0
WRONG_LOGITS = tuple(range(11))
SURE, HELPS = 6, 50.0
"""The logit of a confident wrong output, and the least ratio of cross-entropy's gradient to the other."""


class VanishingWithDepth(Experiment):
    claim = "Gradients of sigmoid networks vanish with depth; ReLU, leaky and randomised ReLU and cross-entropy help."
    lecture = "F3"
    threshold = (
        "In the deepest networks and for every seed, the first layer's gradient is below 1/1000 of the last hidden "
        "layer's with sigmoid, and within a factor of 10 with the three ReLUs; with 2 hidden layers (the control) "
        "sigmoid's is above 1/1000 as well. At an output that is wrong by a logit of 6, cross-entropy's gradient is 50 "
        "times squared error's or more, at one of 0 it is not."
    )
    code = (
        "regard.lab.vanishing_with_depth.layer_gradients",
        "regard.lab.vanishing_with_depth.output_gradients",
        "regard.lab.vanishing_with_depth.Deep",
    )

    def run(self, size: str, setting: Setting) -> Numbers:
        with one_thread():
            return self._measured(SIZES[size], setting)

    def _measured(self, recipe: Recipe, setting: Setting) -> Numbers:
        networks = []
        total = len(ACTIVATIONS) * len(recipe.depths)
        for name, activation in ACTIVATIONS.items():
            for depth in recipe.depths:
                for loss in LOSSES:
                    norms = [
                        layer_gradients(activation, depth, loss, recipe, seed, setting.device)
                        for seed in range(setting.seed, setting.seed + recipe.seeds)
                    ]
                    found = {"activation": name, "depth": depth, "loss": loss}
                    networks.append(found | {"norms": [[rounded(norm) for norm in each] for each in norms]})
                setting.progress(len(networks) // len(LOSSES), total, "measuring gradients")
        return {
            "depths": list(recipe.depths),
            "width": recipe.width,
            "seeds": recipe.seeds,
            "networks": networks,
            "wrong_output": {"logits": list(WRONG_LOGITS)} | output_gradients(WRONG_LOGITS),
        }

    def table(self, numbers: Numbers) -> list[list[str]]:
        rows = [["first layer / last", "loss", *(f"{depth} layers" for depth in numbers["depths"])]]
        for name in _names(numbers):
            for loss in LOSSES:
                cells = [shown(median(ratios(numbers, name, depth, loss))) for depth in numbers["depths"]]
                rows.append([name, loss, *cells])
        return rows

    def verdict(self, numbers: Numbers) -> Verdict:
        shallow, deep = numbers["depths"][0], numbers["depths"][-1]
        sigmoid = [ratio for loss in LOSSES for ratio in ratios(numbers, "sigmoid", deep, loss)]
        control = [ratio for loss in LOSSES for ratio in ratios(numbers, "sigmoid", shallow, loss)]
        straight = [r for name in STRAIGHT for loss in LOSSES for r in ratios(numbers, name, deep, loss)]
        vanishes = all(ratio < VANISHED for ratio in sigmoid) and all(ratio > VANISHED for ratio in control)
        keep = all(1 / KEPT <= ratio <= KEPT for ratio in straight)
        sure, unsure = (_times(numbers, logit) for logit in (SURE, 0))
        return Verdict(
            vanishes and keep and sure >= HELPS > unsure,
            f"through {deep} layers sigmoid leaves {ranged(sigmoid)} of the gradient (through {shallow}, "
            f"{ranged(control)}), the three ReLUs {ranged(straight)}; at an output that is wrong by a logit of {SURE} "
            f"cross-entropy's gradient is {sure:.0f} times squared error's, at one of 0 {unsure:.0f} times",
            but="cross-entropy helps at the output only, not on the way"
            if all(ratio < VANISHED for ratio in ratios(numbers, "sigmoid", deep, "cross-entropy"))
            else "",
        )

    def remark(self, numbers: Numbers) -> str:
        deep = numbers["depths"][-1]
        squared, entropy = (median(ratios(numbers, "sigmoid", deep, loss)) for loss in LOSSES)
        tanh = median(ratios(numbers, "tanh", deep, LOSSES[1]))
        return (
            f"Cross-entropy helps where the gradient begins, not on its way: through {deep} sigmoid layers the same "
            f"share is left with either loss ({shown(squared)} and {shown(entropy)}). Tanh, whose slope reaches 1, "
            f"does not vanish: with its usual spread the gradient is multiplied by {shown(tanh)}."
        )

    def figure(self, numbers: Numbers) -> Figure:
        figure, (layers, depths, outputs) = panels(columns=3, width=4.6, height=3.8)
        deep = numbers["depths"][-1]
        _draw_layers(layers, numbers, deep)
        depths.axhspan(1 / KEPT, KEPT, color=TILE, zorder=0)
        depths.set(title="First layer against the last", xlabel="hidden layers", ylabel="gradient there / at the last")
        depths.set(yscale="log")
        labels = []
        for name in _names(numbers):
            each = [ratios(numbers, name, depth, LOSSES[1]) for depth in numbers["depths"]]
            depths.plot(numbers["depths"], [median(found) for found in each], "o-", color=COLOURS[name], markersize=3)
            labels.append((median(each[-1]), name, COLOURS[name]))
        label_ends(depths, labels)
        wrong = numbers["wrong_output"]
        outputs.set(title="An output that is wrong", xlabel="its logit (0 wanted)", ylabel="slope of the loss")
        outputs.set(yscale="log")
        for loss, colour in zip(LOSSES, (PALETTE[1], PALETTE[2])):
            outputs.plot(wrong["logits"], wrong[loss], "o-", color=colour, markersize=3)
        label_ends(outputs, [(wrong[loss][-1], loss, colour) for loss, colour in zip(LOSSES, (PALETTE[1], PALETTE[2]))])
        return figure


# ------------------------------------------------------------------------------------------------------- measuring


class Deep(nn.Module):
    """`depth` hidden layers of one width and activation, and a linear output."""

    def __init__(self, activation: Activation, depth: int, recipe: Recipe):
        super().__init__()
        self.activation = activation
        self.hidden = nn.ModuleList(nn.Linear(recipe.width, recipe.width) for _ in range(depth))
        self.line = nn.Linear(recipe.width, recipe.classes)
        for layer in self.hidden:
            nn.init.normal_(layer.weight, std=activation.gain * recipe.width**-0.5)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, x: Float[Tensor, "B W"]) -> tuple[Float[Tensor, "B K"], list[Float[Tensor, "B W"]]]:
        """The logits, and the pre-activations of each hidden layer."""
        before = []
        for layer in self.hidden:
            before.append(layer(x))
            x = self.activation.apply(before[-1])
        return self.line(x), before


def layer_gradients(
    activation: Activation, depth: int, loss: str, recipe: Recipe, seed: int, device: torch.device
) -> list[float]:
    """The norm of dL/da for the pre-activations a of each hidden layer, first to last, in float64."""
    torch.manual_seed(seed)
    network = Deep(activation, depth, recipe).double()
    x = torch.randn(recipe.rows, recipe.width, dtype=torch.float64)
    targets = torch.randint(recipe.classes, (recipe.rows,))
    if device.type == "cuda":
        network, x, targets = network.to(device), x.to(device), targets.to(device)
    logits, before = network(x)
    if loss == "cross-entropy":
        total = F.cross_entropy(logits, targets)
    else:
        total = F.mse_loss(torch.sigmoid(logits), F.one_hot(targets, recipe.classes).double())
    return [float(gradient.norm()) for gradient in torch.autograd.grad(total, before)]


def output_gradients(logits: tuple[int, ...]) -> dict[str, list[float]]:
    """|dL/dz| at a sigmoid output that should be 0, for both losses."""
    found = {}
    for loss in LOSSES:
        z = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
        p = torch.sigmoid(z)
        total = (
            (p**2).sum() if loss == "squared error" else F.binary_cross_entropy(p, torch.zeros_like(p), reduction="sum")
        )
        found[loss] = [float(f"{slope:.6g}") for slope in torch.autograd.grad(total, z)[0].abs().tolist()]
    return found


# --------------------------------------------------------------------------------------------------------- showing

COLOURS = dict(zip(ACTIVATIONS, (PALETTE[1], PALETTE[3], PALETTE[0], PALETTE[2], PALETTE[4])))


def ratios(numbers: Numbers, activation: str, depth: int, loss: str) -> list[float]:
    """The ratio of the first layer's gradient to the last hidden layer's, for each seed."""
    wanted = (activation, depth, loss)
    (found,) = [n for n in numbers["networks"] if (n["activation"], n["depth"], n["loss"]) == wanted]
    return [number(norms[0]) / number(norms[-1]) for norms in found["norms"]]


def _names(numbers: Numbers) -> list[str]:
    return list({network["activation"]: None for network in numbers["networks"]})


def _times(numbers: Numbers, logit: int) -> float:
    wrong = numbers["wrong_output"]
    at = wrong["logits"].index(logit)
    return wrong["cross-entropy"][at] / wrong["squared error"][at]


def _draw_layers(axes: Axes, numbers: Numbers, depth: int) -> None:
    axes.set(
        yscale="log", title=f"{depth} layers", xlabel="layers before the last", ylabel="gradient there / at the last"
    )
    axes.axhspan(1 / KEPT, KEPT, color=TILE, zorder=0)
    labels = []
    for network in numbers["networks"]:
        if network["depth"] != depth or network["loss"] != LOSSES[1]:
            continue
        colour = COLOURS[network["activation"]]
        each = [[number(norm) / number(norms[-1]) for norm in reversed(norms)] for norms in network["norms"]]
        for line in each:
            axes.plot(range(depth), line, color=colour, linewidth=0.6, alpha=0.25)
        middle = [median(layer) for layer in zip(*each)]
        axes.plot(range(depth), middle, color=colour)
        labels.append((middle[-1], network["activation"], colour))
    label_ends(axes, labels)
