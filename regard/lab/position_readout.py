"""How well a token's position can be read out of each layer of an encoder, with residual connections and without.

The encoder learns to reverse letters: each position predicts the letter that is as far from the end as it is from the
start. A linear probe then predicts the position of a token from each layer's vectors, fitted by least squares on some
sequences of random letters and tested on others, before and after training. Letters are independent of the position, so
whatever is read out was carried there. The control has no position embedding, so there is nothing to carry.
"""

from __future__ import annotations

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
from regard.lab._numbers import rounded
from regard.layers.residual import Residual
from regard.stem.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PositionReadout"]


@dataclass(frozen=True)
class Size:
    length: int
    width: int
    layers: int
    steps: int
    seeds: int
    sequences: int
    """Sequences to fit the probe on, and as many to test it."""
    rate: float = 1e-3
    batch: int = 64


SIZES = {
    "tiny": Size(length=8, width=24, layers=2, steps=120, seeds=1, sequences=200, rate=3e-3),
    "small": Size(length=16, width=48, layers=4, steps=500, seeds=2, sequences=400),
    "full": Size(length=32, width=128, layers=6, steps=4000, seeds=5, sequences=1000, rate=5e-4),
}
LETTERS = 20
WITH, WITHOUT = "residuals", "no residuals"
GIVEN, NONE = "sinusoidal", "none"
TIMES = ("untrained", "trained")
READ, NOTHING = 4.0, 2.0
"""Multiple of chance level."""
RIDGE = 1e-4
"""Ridge term relative to the mean square of a feature; keeps the probe from using rounding errors."""


class PositionReadout(Experiment):
    claim = "Residual connections carry the positional information upward."
    lecture = "F16"
    threshold = (
        "In the last layer's vectors, means over the seeds, untrained and trained: with residual connections at least "
        "4 times as many positions are read out right as guessing has (1 / length), without them at most 2 times as "
        "many; nor more than 2 times as many where no positions are given (the control), with or without."
    )
    code = (
        "regard.layers.residual.Residual",
        "regard.lab.position_readout.WithoutResidual",
        "regard.lab.position_readout.read_out",
    )

    def run(self, size: str, setting: Setting) -> Numbers:
        wanted = SIZES[size]
        ways = [(residual, position) for position in (GIVEN, NONE) for residual in (WITH, WITHOUT)]
        advance = counter(setting, len(ways) * wanted.seeds * wanted.steps)
        with one_thread():
            runs = [
                {"residual": residual, "position": position, "seed": seed}
                | measured(residual, position, wanted, seed, setting.device, advance)
                for residual, position in ways
                for seed in range(setting.seed, setting.seed + wanted.seeds)
            ]
        return {"length": wanted.length, "layers": wanted.layers, "seeds": wanted.seeds, "runs": runs}

    def table(self, numbers: Numbers) -> list[list[str]]:
        layers = range(numbers["layers"] + 1)
        rows = [["", "", "positions", "embedding", *(f"layer {layer}" for layer in layers[1:]), "letters right"]]
        for time in TIMES:
            for position in (GIVEN, NONE):
                for residual in (WITH, WITHOUT):
                    shares = means(numbers, residual, position, time)
                    right = f"{_right(numbers, residual, position):.0%}" if time == "trained" else "–"
                    rows.append([time, residual, position, *(f"{share:.0%}" for share in shares), right])
        return rows

    def verdict(self, numbers: Numbers) -> Verdict:
        top = {
            (time, residual, position): means(numbers, residual, position, time)[-1]
            for time in TIMES
            for residual in (WITH, WITHOUT)
            for position in (GIVEN, NONE)
        }
        guessed = 1 / numbers["length"]
        nothing = [share for which, share in top.items() if which[1:] != (WITH, GIVEN)]
        held = all(top[time, WITH, GIVEN] >= READ * guessed for time in TIMES) and max(nothing) <= NOTHING * guessed
        told = "; ".join(
            f"{time} {top[time, WITH, GIVEN]:.0%} with residual connections and {top[time, WITHOUT, GIVEN]:.0%} without"
            for time in TIMES
        )
        control = max(share for which, share in top.items() if which[2] == NONE)
        return Verdict(
            held,
            f"positions that are read out of layer {numbers['layers']}: {told}; where none are given at most "
            f"{control:.0%} (guessing: {guessed:.0%})",
        )

    def remark(self, numbers: Numbers) -> str:
        right = {residual: _right(numbers, residual, GIVEN) for residual in (WITH, WITHOUT)}
        return (
            f"Sequences of {numbers['length']} random letters, {numbers['seeds']} seeds. The task was learnt to "
            f"{right[WITH]:.0%} of the letters with residual connections, to {right[WITHOUT]:.0%} without them. The "
            "rule's multiples of guessing were chosen after a look at the small form, and before any full run."
        )

    def figure(self, numbers: Numbers) -> Figure:
        figure, axes = panels(columns=2, width=4.6, height=3.6, sharey=True)
        layers = range(numbers["layers"] + 1)
        for panel, time in zip(axes, TIMES):
            labels = []
            for residual, position, colour in (
                (WITH, GIVEN, PALETTE[0]), (WITHOUT, GIVEN, PALETTE[1]), (WITH, NONE, PALETTE[2]),
            ):  # fmt: skip
                line = [100 * share for share in means(numbers, residual, position, time)]
                panel.plot(layers, line, "o-", color=colour, markersize=3)
                labels.append((line[-1], residual if position == GIVEN else "no positions", colour))
            panel.axhline(100 / numbers["length"], color=FAINT, linewidth=0.8, linestyle=":")
            panel.set(title=f"Positions read out, {time}", xlabel="layer (0: the embedding)", ylim=(0, 103))
            panel.set_xticks(layers)
            if time == TIMES[-1]:
                label_ends(panel, labels)
        axes[0].set_ylabel("% of the tokens")
        return figure


# ------------------------------------------------------------------------------------------------------- measuring


class WithoutResidual(nn.Module):
    """A sublayer without its residual connection: norm(f(x)) instead of norm(x + f(x))."""

    def __init__(self, around: Residual):
        super().__init__()
        self.norm = around.norm

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Callable[[Tensor], Tensor]) -> Float[Tensor, "B T D"]:
        return self.norm(sublayer(x))


class Backwards(nn.Module):
    """An encoder that predicts a letter at each position."""

    def __init__(self, residual: str, position: str, wanted: Size):
        super().__init__()
        self.stem = Tokens(LETTERS, wanted.width, position, dropout=0.0)
        self.encoder = TransformerEncoder(wanted.width, wanted.layers, 4, 2 * wanted.width, dropout=0.0)
        self.head = nn.Linear(wanted.width, LETTERS)
        if residual == WITHOUT:
            for layer in self.encoder.layers:
                for around in ("around_attention", "around_feed_forward"):
                    setattr(layer, around, WithoutResidual(getattr(layer, around)))

    def layers(self, ids: Int[Tensor, "B T"]) -> list[Float[Tensor, "B T D"]]:
        """The embedding, and the output of each layer."""
        x, mask = self.stem(ids, torch.ones_like(ids, dtype=torch.bool))
        states = [x]
        hooks = [
            layer.register_forward_hook(lambda _, given, made: states.append(made)) for layer in self.encoder.layers
        ]
        try:
            self.encoder(x, mask)
        finally:
            for hook in hooks:
                hook.remove()
        return states

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        return self.head(self.layers(ids)[-1])


def measured(
    residual: str, position: str, wanted: Size, seed: int, device: torch.device, advance: Callable[[], None]
) -> Numbers:
    """The share of positions read out of each layer, before and after training."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = Backwards(residual, position, wanted).to(device)
    chance = torch.Generator().manual_seed(seed)

    def letters(count: int) -> Int[Tensor, "B T"]:
        return torch.randint(LETTERS, (count, wanted.length), generator=chance).to(device)

    fitted, judged = letters(wanted.sequences), letters(wanted.sequences)

    def loss() -> Tensor:
        ids = letters(wanted.batch)
        return F.cross_entropy(network(ids).flatten(0, 1), ids.flip(1).flatten())

    def shares() -> list[float | None]:
        network.eval()
        with torch.no_grad():
            return [rounded(read_out(*both)) for both in zip(network.layers(fitted), network.layers(judged))]

    found: Numbers = {"untrained": shares()}
    learn(network, loss, wanted.steps, wanted.rate, advance, warmup=wanted.steps // 10)
    found["trained"] = shares()
    with torch.no_grad():
        found["right"] = rounded(float((network(judged).argmax(-1) == judged.flip(1)).float().mean()))
    return found


def read_out(fitted: Float[Tensor, "N T D"], judged: Float[Tensor, "M T D"]) -> float:
    """The accuracy of a linear probe for the position of test vectors.

    It is the least-squares map to 1 for the right position and 0 for all others.
    """
    length = fitted.shape[1]
    x, y = (states.double().flatten(0, 1) for states in (fitted, judged))
    centre, spread = x.mean(0), x.std(0).clamp(min=1e-9)
    x, y = ((F.pad((states - centre) / spread, (0, 1), value=1.0)) for states in (x, y))
    places = torch.eye(length, dtype=x.dtype, device=x.device).repeat(len(fitted), 1)
    ridge = RIDGE * len(x) * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    weights = torch.linalg.solve(x.T @ x + ridge, x.T @ places)
    right = (y @ weights).view(len(judged), length, length).argmax(-1) == torch.arange(length, device=x.device)
    return float(right.double().mean())


# --------------------------------------------------------------------------------------------------------- showing


def means(numbers: Numbers, residual: str, position: str, time: str) -> list[float]:
    """Of each layer, over the seeds."""
    runs = _runs(numbers, residual, position)
    return [sum(values) / len(values) for values in zip(*(run[time] for run in runs))]


def _right(numbers: Numbers, residual: str, position: str) -> float:
    runs = _runs(numbers, residual, position)
    return sum(run["right"] for run in runs) / len(runs)


def _runs(numbers: Numbers, residual: str, position: str) -> list[Numbers]:
    return [run for run in numbers["runs"] if (run["residual"], run["position"]) == (residual, position)]
