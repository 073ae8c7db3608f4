"""Softmax and sigmoid with their derivatives, checked numerically.

    sigmoid:  s(z) = 1 / (1 + e^-z)             s' = s (1 - s)
    softmax:  p_i = e^(z_i) / sum_k e^(z_k)     dp_i / dz_j = p_i ([i = j] - p_j)

Each formula is compared with autograd, which uses the chain rule, and with finite differences, which use only the
function itself. The control forgets that every p depends on every z, and must be detected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from regard.lab._drawing import PALETTE, label_ends, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict
from regard.lab._numbers import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SoftmaxAndSigmoid"]

DRAWS = {"tiny": 20, "small": 500, "full": 5000}
CLASSES = (2, 3, 10, 50)
SPREAD = 3.0
"""Standard deviation of the logits, from near certainty to doubt."""
NUDGE = 1e-5
EXACT, NEAR, WRONG = 1e-12, 1e-8, 1e-2
SLIDE = (0.19, 0.53)
"""Two logits whose softmax is 0.48 and 0.52 on a slide."""
SEEN = (1.0, 2.0, 3.0, 4.0)
"""Logits whose Jacobian is plotted."""

Function = Callable[[Tensor], Tensor]


class SoftmaxAndSigmoid(Experiment):
    claim = "The sigmoid's derivative is s (1 - s), the softmax's is p_i ([i = j] - p_j)."
    lecture = "F2"
    threshold = (
        "For all logits drawn, the formulas agree with autograd to 1e-12 and with finite differences to 1e-8, every "
        "row of the softmax's Jacobian adds up to 0, the softmax of two is the sigmoid of their difference, and the "
        "gradient of cross-entropy is p - y (each to 1e-12); without its off-diagonal part (the control) the formula "
        "is off by 0.01 or more."
    )
    code = (
        "regard.lab.softmax_and_sigmoid.sigmoid",
        "regard.lab.softmax_and_sigmoid.sigmoid_slope",
        "regard.lab.softmax_and_sigmoid.softmax",
        "regard.lab.softmax_and_sigmoid.softmax_jacobian",
    )

    def run(self, size: str, setting: Setting) -> Numbers:
        random = torch.Generator().manual_seed(setting.seed)
        found = []
        draws = torch.randn(DRAWS[size], 1, generator=random, dtype=torch.float64) * SPREAD
        found.append({"what": "sigmoid", "classes": 1} | compared(sigmoid, sigmoid_jacobian, draws))
        setting.progress(1, 1 + len(CLASSES), "differentiating")
        for done, classes in enumerate(CLASSES, 2):
            draws = torch.randn(DRAWS[size], classes, generator=random, dtype=torch.float64) * SPREAD
            found.append({"what": "softmax", "classes": classes} | compared(softmax, softmax_jacobian, draws))
            if classes == CLASSES[-1]:
                control = {"what": "softmax, diagonal alone", "classes": classes}
                found.append(control | compared(softmax, diagonal_alone, draws))
            setting.progress(done, 1 + len(CLASSES), "differentiating")
        seen = torch.tensor(SEEN, dtype=torch.float64)
        grid = torch.linspace(-8, 8, 161, dtype=torch.float64)
        return {
            "draws": DRAWS[size],
            "formulas": found,
            "laws": laws(draws, random),
            "largest_sigmoid_slope": float(sigmoid_slope(grid).max()),
            "slide": {"logits": SLIDE, "softmax": _list(softmax(torch.tensor(SLIDE, dtype=torch.float64)), 6)},
            "seen": {"logits": SEEN, "softmax": _list(softmax(seen)), "jacobian": _list(softmax_jacobian(seen))},
            "curves": {
                "z": _list(grid),
                "sigmoid": _list(sigmoid(grid)),
                "slope": _list(sigmoid_slope(grid)),
            },
        }

    def table(self, numbers: Numbers) -> list[list[str]]:
        rows = [["", "classes", "largest entry", "off autograd by", "off finite differences by"]]
        for found in numbers["formulas"]:
            off = [f"{found[key]:.1e}" for key in ("autograd", "differences")]
            rows.append([found["what"], str(found["classes"]), f"{found['largest']:.3f}", *off])
        for law, off_by in numbers["laws"].items():
            rows.append([law, "-", "-", f"{off_by:.1e}", "-"])
        return rows

    def verdict(self, numbers: Numbers) -> Verdict:
        right = [found for found in numbers["formulas"] if "alone" not in found["what"]]
        (control,) = [found for found in numbers["formulas"] if "alone" in found["what"]]
        autograd, differences = (max(found[key] for found in right) for key in ("autograd", "differences"))
        held = autograd <= EXACT and differences <= NEAR and max(numbers["laws"].values()) <= EXACT
        return Verdict(
            held and control["autograd"] >= WRONG,
            f"over {numbers['draws']:,} draws each, the formulas are within {shown(autograd)} of autograd and within "
            f"{shown(differences)} of finite differences, and without what every p owes to the other z the formula is "
            f"off by {shown(control['autograd'])}",
        )

    def remark(self, numbers: Numbers) -> str:
        one, other = numbers["slide"]["softmax"]
        return (
            f"The sigmoid's slope is never more than {numbers['largest_sigmoid_slope']:g}: why deep sigmoid networks "
            "lose their gradients (`regard lab vanishing-with-depth`). A slide prints the softmax of 0.19 and 0.53 as "
            f"0.48 and 0.52; it is {one:.3f} and {other:.3f}."
        )

    def figure(self, numbers: Numbers) -> Figure:
        figure, (curves, bars, grid) = panels(columns=3, width=4.2, height=3.6)
        known = numbers["curves"]
        curves.plot(known["z"], known["sigmoid"], color=PALETTE[0])
        curves.plot(known["z"], known["slope"], color=PALETTE[1])
        curves.set(title="Sigmoid, and its slope", xlabel="z", ylim=(0, 1.05))
        curves.annotate("s (1 - s), at most 1/4", (0.4, max(known["slope"])), color=PALETTE[1], va="bottom")
        label_ends(curves, [(1.0, "s", PALETTE[0]), (0.0, "s'", PALETTE[1])])
        seen = numbers["seen"]
        places = range(len(seen["logits"]))
        bars.bar(places, seen["softmax"], color=PALETTE[0], width=0.6)
        for place, p in zip(places, seen["softmax"]):
            bars.annotate(f"{p:.3f}", (place, p), ha="center", va="bottom")
        bars.set(title="Softmax", xlabel="logit", ylim=(0, 1))
        bars.set_xticks(list(places), [f"{z:g}" for z in seen["logits"]])
        bars.grid(axis="x", visible=False)
        jacobian = seen["jacobian"]
        top = max(abs(entry) for row in jacobian for entry in row)
        grid.imshow(jacobian, cmap="PuOr", vmin=-top, vmax=top)
        for i, row in enumerate(jacobian):
            for j, entry in enumerate(row):
                colour = "white" if abs(entry) > 0.6 * top else "black"
                grid.annotate(f"{entry:.3f}", (j, i), ha="center", va="center", color=colour, fontsize=9)
        grid.set(title="Its Jacobian, $\\partial p_i / \\partial z_j$", xlabel="j", ylabel="i")
        grid.set_xticks(list(places), [str(place + 1) for place in places])
        grid.set_yticks(list(places), [str(place + 1) for place in places])
        grid.grid(visible=False)
        return figure


# ------------------------------------------------------------------------------------------------------- measuring


def sigmoid(z: Float[Tensor, "*A"]) -> Float[Tensor, "*A"]:
    """1 / (1 + e^-z), computed so that the exponential never overflows."""
    e = (-z.abs()).exp()
    return torch.where(z >= 0, 1 / (1 + e), e / (1 + e))


def sigmoid_slope(z: Float[Tensor, "*A"]) -> Float[Tensor, "*A"]:
    return sigmoid(z) * (1 - sigmoid(z))


def softmax(z: Float[Tensor, "*A K"]) -> Float[Tensor, "*A K"]:
    """e^z over its sum; the maximum is subtracted first, which prevents overflow and does not change the result."""
    e = (z - z.amax(-1, keepdim=True).detach()).exp()
    return e / e.sum(-1, keepdim=True)


def softmax_jacobian(z: Float[Tensor, "*A K"]) -> Float[Tensor, "*A K K"]:
    """diag(p) - p p^T."""
    p = softmax(z)
    return torch.diag_embed(p) - p[..., :, None] * p[..., None, :]


def sigmoid_jacobian(z: Float[Tensor, "*A K"]) -> Float[Tensor, "*A K K"]:
    return torch.diag_embed(sigmoid_slope(z))


def diagonal_alone(z: Float[Tensor, "*A K"]) -> Float[Tensor, "*A K K"]:
    """The control: p (1 - p) for each class, ignoring the others."""
    p = softmax(z)
    return torch.diag_embed(p * (1 - p))


def compared(function: Function, jacobian: Function, draws: Float[Tensor, "N K"]) -> Numbers:
    """The largest difference of a formula from autograd and from finite differences over all draws."""
    formula = jacobian(draws)
    by_autograd = autograd_jacobian(function, draws)
    by_nudging = nudged_jacobian(function, draws)
    return {
        "largest": float(f"{formula.abs().max():.6g}"),
        "autograd": float(f"{(formula - by_autograd).abs().max():.3g}"),
        "differences": float(f"{(formula - by_nudging).abs().max():.3g}"),
    }


def autograd_jacobian(function: Function, draws: Float[Tensor, "N K"]) -> Float[Tensor, "N K K"]:
    z = draws.clone().requires_grad_()
    values = function(z)
    rows = [torch.autograd.grad(values[:, i].sum(), z, retain_graph=True)[0] for i in range(values.shape[1])]
    return torch.stack(rows, 1)


def nudged_jacobian(function: Function, draws: Float[Tensor, "N K"]) -> Float[Tensor, "N K K"]:
    """(f(z + h) - f(z - h)) / 2h for every z; the error is of order h^2 plus rounding."""
    columns = []
    for j in range(draws.shape[1]):
        nudge = torch.zeros(draws.shape[1], dtype=draws.dtype)
        nudge[j] = NUDGE
        columns.append((function(draws + nudge) - function(draws - nudge)) / (2 * NUDGE))
    return torch.stack(columns, 2)


def laws(draws: Float[Tensor, "N K"], random: torch.Generator) -> dict[str, float]:
    """Consequences of the formulas, and their largest violations."""
    two = draws[:, :2]
    targets = torch.randint(draws.shape[1], (len(draws),), generator=random)
    z = draws.clone().requires_grad_()
    loss = -softmax(z).log()[torch.arange(len(z)), targets].sum()
    (gradient,) = torch.autograd.grad(loss, z)
    by_hand = softmax(draws) - torch.nn.functional.one_hot(targets, draws.shape[1])
    missed = {
        "rows of the softmax's Jacobian add up to 0": softmax_jacobian(draws).sum(-1),
        "softmax of two = sigmoid of their difference": softmax(two)[:, 0] - sigmoid(two[:, 0] - two[:, 1]),
        "cross-entropy after softmax: gradient = p - y": gradient - by_hand,
    }
    return {law: float(f"{off.abs().max():.3g}") for law, off in missed.items()}


def _list(values: Tensor, digits: int = 6) -> list:
    def short(entry: float | list) -> float | list:
        return [short(one) for one in entry] if isinstance(entry, list) else round(entry, digits)

    return [short(entry) for entry in values.tolist()]
