"""Dropout: units are kept with probability p in training, and all of them are used in testing.

A layer's output y is thinned to r y, r ~ Bernoulli(p) for every unit and example (Srivastava et al. 2014, section 4).
In the lecture the weights after it are multiplied by p for testing; here, as usual today, r y is divided by p in
training instead, which is the same network with weights p times as large.

Networks of several architectures train for the same number of steps with and without dropout. With few examples they
overfit; with many (the control) they cannot, and dropout has nothing to prevent. Then units of a trained network are
dropped: the mean over many thinned networks should be close to the one scaled network used in testing.

The tiny and small sizes use synthetic classes with noisy examples and some wrong labels, the full one Fashion-MNIST.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.format.idx import Idx
from regard.lab._drawing import PALETTE, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict, one_thread
from regard.lab._learning import counter, learn
from regard.lab._numbers import rounded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Dropout"]


@dataclass(frozen=True)
class Recipe:
    few: int
    plenty: int
    """Training examples; both train for the same number of steps."""
    steps: int
    architectures: tuple[tuple[int, int], ...]
    """Hidden layers and the units of each."""
    seeds: int
    batch: int = 64
    rate: float = 1e-3
    tests: int = 2000
    thinned: tuple[int, ...] = (1, 3, 10, 30, 100)
    """Numbers of thinned networks to average; the last decides."""
    real: bool = False


SIZES = {
    "tiny": Recipe(200, 20_000, 250, ((1, 64), (2, 64)), 2, rate=3e-3, tests=1000),
    "small": Recipe(300, 100_000, 1000, ((1, 128), (2, 128), (3, 128), (2, 256)), 2),
    "full": Recipe(2000, 60_000, 1875, ((2, 256), (3, 256), (2, 512), (3, 512)), 2, tests=10_000, real=True),
}
KEPT = 0.8
"""The lecture's probability to keep a unit; torch's `p` is that of dropping it, 0.2."""
INPUTS, CLASSES, PROTOTYPES, NOISE, WRONG = 100, 4, 3, 2.5, 0.2
"""Of what is made: numbers of an input, classes, prototypes of each, how far examples are from them, and the share of
training labels that are drawn anew. Every number of an input says a little: none is needed."""
FASHION = "fashion_mnist"
AMOUNTS = ("few", "plenty")
LOWER, LITTLE, CLOSE = 0.03, 0.5, 0.95
"""Of the error without dropout; of the gain with few examples; of the answers."""


class Dropout(Experiment):
    claim = "Dropout lowers the test error, whatever the architecture."
    lecture = "F1"
    threshold = (
        "With few examples, dropout (0.8 kept) lowers the test error of every architecture, mean over seeds, by 3 % of "
        "it or more; with plenty (the control), the mean gain in points over architectures is less than half of that. "
        "The mean of 100 thinned networks gives the answer of the scaled one in 95 % of the tests or more, and more "
        "often than one thinned network does."
    )
    data = ("fashion_mnist",)
    code = ("regard.lab.dropout.Thinned", "regard.lab.dropout.Network", "regard.lab.dropout.averaged")

    def run(self, size: str, setting: Setting) -> Numbers:
        recipe = SIZES[size]
        total = recipe.seeds * len(AMOUNTS) * len(recipe.architectures) * 2 * recipe.steps
        advance = counter(setting, total)
        runs, averages = [], []
        with one_thread():
            for seed in range(setting.seed, setting.seed + recipe.seeds):
                data = fashion(recipe, seed, setting) if recipe.real else made(recipe, seed)
                data = Data(*(part.to(setting.device) for part in (data.x, data.y, data.test_x, data.test_y)))
                for layers, units in recipe.architectures:
                    for amount in AMOUNTS:
                        for kept in (1.0, KEPT):
                            network = Network(data, layers, units, kept, seed)
                            trained = network.learnt(data, getattr(recipe, amount), recipe, seed, advance)
                            found = {"layers": layers, "units": units, "seed": seed, "amount": amount, "kept": kept}
                            runs.append(found | trained)
                            if kept < 1 and amount == "few":
                                averages.append(found | averaged(network, data, recipe.thinned))
        return {
            "data": FASHION if recipe.real else "made",
            "kept": KEPT,
            "examples": {amount: getattr(recipe, amount) for amount in AMOUNTS},
            "steps": recipe.steps,
            "batch": recipe.batch,
            "runs": runs,
            "thinned": list(recipe.thinned),
            "averages": averages,
        }

    def table(self, numbers: Numbers) -> list[list[str]]:
        rows = [["architecture", "examples", "training error", "with dropout", "test error", "with dropout", "gain"]]
        for amount in AMOUNTS:
            for architecture in architectures(numbers):
                cells = [
                    f"{error(numbers, architecture, amount, kept, part):.1f}"
                    for part in ("train", "test")
                    for kept in (1.0, KEPT)
                ]
                examples = f"{numbers['examples'][amount]:,}"
                rows.append([_titled(architecture), examples, *cells, f"{gain(numbers, architecture, amount):+.1f}"])
        return rows

    def verdict(self, numbers: Numbers) -> Verdict:
        few, plenty = ([gain(numbers, a, amount) for a in architectures(numbers)] for amount in AMOUNTS)
        shares = [g / error(numbers, a, "few", 1.0) for g, a in zip(few, architectures(numbers))]
        one, *_, many = agreements(numbers)
        count = len(few)
        return Verdict(
            min(shares) >= LOWER and _mean(plenty) < LITTLE * _mean(few) and many >= CLOSE and many > one,
            f"from {numbers['examples']['few']:,} examples dropout lowers the test error of {sum(g > 0 for g in few)} "
            f"of {count} architectures, by {100 * min(shares):.0f} to {100 * max(shares):.0f} % of it (by "
            f"{_mean(few):.1f} points on average); from {numbers['examples']['plenty']:,} it "
            f"{'lowers' if _mean(plenty) > 0 else 'raises'} it by {abs(_mean(plenty)):.1f} points; "
            f"{numbers['thinned'][-1]} thinned networks together answer as the scaled one in {100 * many:.1f} % of the "
            f"tests, a single one in {100 * one:.1f} %",
            but="where examples are plenty it raises the error" if _mean(plenty) < 0 else "",
        )

    def remark(self, numbers: Numbers) -> str:
        far = _mean([found["apart"][-1] for found in numbers["averages"]])
        return (
            f"Errors are percentages, means over seeds; both amounts are learnt from for {numbers['steps']:,} steps of "
            f"{numbers['batch']} examples. The mean of the thinned networks' probabilities is only near the scaled "
            f"network's: they differ by {far:.3f} on average. Were all layers straight lines, and logits compared, "
            "nothing would differ."
        )

    def figure(self, numbers: Numbers) -> Figure:
        figure, (few, plenty, thin) = panels(columns=3, width=4.4, height=3.6)
        plenty.sharey(few)
        for axes, amount in zip((few, plenty), AMOUNTS):
            _draw_errors(axes, numbers, amount)
        thin.set(title="Thinned networks, averaged", xlabel="networks", ylabel="test error, %", xscale="log")
        for architecture, colour in zip(architectures(numbers), PALETTE):
            found = [a for a in numbers["averages"] if (a["layers"], a["units"]) == architecture]
            errors = [_mean(list(each)) for each in zip(*(a["errors"] for a in found))]
            thin.plot(numbers["thinned"], errors, "o-", color=colour, markersize=3, label=_titled(architecture))
            thin.axhline(_mean([a["scaled"] for a in found]), color=colour, linestyle="--", linewidth=1)
        thin.set_xticks(numbers["thinned"], map(str, numbers["thinned"]))
        thin.minorticks_off()
        thin.legend(title="dashed: the scaled one", fontsize=8, title_fontsize=8)
        return figure


# ------------------------------------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Data:
    x: Float[Tensor, "N I"]
    y: Int[Tensor, " N"]
    test_x: Float[Tensor, "M I"]
    test_y: Int[Tensor, " M"]


def made(recipe: Recipe, seed: int) -> Data:
    """Noisy copies of a few prototypes per class; some training labels are wrong."""
    random = torch.Generator().manual_seed(seed)
    prototypes = torch.randn(CLASSES * PROTOTYPES, INPUTS, generator=random)
    which = torch.randint(len(prototypes), (recipe.plenty + recipe.tests,), generator=random)
    x = prototypes[which] + NOISE * torch.randn(len(which), INPUTS, generator=random)
    y = which % CLASSES
    train = y[: recipe.plenty]
    anew = torch.rand(train.shape, generator=random) < WRONG
    noisy = torch.where(anew, torch.randint(CLASSES, train.shape, generator=random), train)
    return Data(x[: recipe.plenty], noisy, x[recipe.plenty :], y[recipe.plenty :])


def fashion(recipe: Recipe, seed: int, setting: Setting) -> Data:
    """Fashion-MNIST, shuffled by seed; the first examples are the few."""
    parts = []
    for part in ("train", "t10k"):
        files = [setting.data / FASHION / f"{part}-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")]
        examples = Idx().read(files, part)
        pictures = torch.from_numpy(np.stack([example.input for example in examples])).flatten(1).float() / 255
        parts.append((pictures, torch.tensor([int(example.target) for example in examples])))
    (x, y), (test_x, test_y) = parts
    mean, spread = x.mean(), x.std()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[: recipe.plenty]
    return Data((x[order] - mean) / spread, y[order], (test_x[: recipe.tests] - mean) / spread, test_y[: recipe.tests])


class Thinned(nn.Module):
    """r y / p with r ~ Bernoulli(p) in training, y in use."""

    def __init__(self, kept: float):
        super().__init__()
        self.kept = kept

    def forward(self, y: Float[Tensor, "*A D"]) -> Float[Tensor, "*A D"]:
        if not self.training or self.kept == 1:
            return y
        return torch.empty_like(y).bernoulli_(self.kept) * y / self.kept


class Network(nn.Module):
    """Hidden ReLU layers and a linear output; dropout also applies to the input."""

    def __init__(self, data: Data, layers: int, units: int, kept: float, seed: int):
        super().__init__()
        torch.manual_seed(seed)
        widths = [data.x.shape[1], *[units] * layers]
        hidden = [(Thinned(kept), nn.Linear(a, b), nn.ReLU()) for a, b in zip(widths, widths[1:])]
        line = nn.Linear(units, int(data.test_y.max()) + 1)
        self.all = nn.Sequential(*(part for layer in hidden for part in layer), Thinned(kept), line)
        self.to(data.x.device)

    def forward(self, x: Float[Tensor, "B I"]) -> Float[Tensor, "B K"]:
        return self.all(x)

    def learnt(self, data: Data, count: int, recipe: Recipe, seed: int, advance: Callable[[], None]) -> Numbers:
        """Trains on the first `count` examples; the errors in percent on these and on the test examples."""
        random = torch.Generator().manual_seed(seed)

        def loss() -> Tensor:
            chosen = torch.randint(count, (recipe.batch,), generator=random).to(data.x.device)
            return F.cross_entropy(self(data.x[chosen]), data.y[chosen])

        learn(self, loss, recipe.steps, recipe.rate, advance)
        self.eval()
        few = slice(min(count, len(data.test_y)))
        with torch.no_grad():
            train, test = wrong(self(data.x[few]), data.y[few]), wrong(self(data.test_x), data.test_y)
        return {"train": rounded(train), "test": rounded(test)}


def wrong(scores: Float[Tensor, "B K"], y: Int[Tensor, " B"]) -> float:
    """The error rate in percent."""
    return 100 * float((scores.argmax(1) != y).float().mean())


@torch.no_grad()
def averaged(network: Network, data: Data, counts: Sequence[int]) -> Numbers:
    """The averaged probabilities of thinned networks, and those of the scaled one.

    As in training, units are dropped for each example independently.
    """
    scaled = network.eval()(data.test_x).softmax(1)
    network.train()
    total = torch.zeros_like(scaled)
    errors, agree, apart = [], [], []
    for count in range(1, max(counts) + 1):
        total += network(data.test_x).softmax(1)
        if count in counts:
            mean = total / count
            errors.append(rounded(wrong(mean, data.test_y)))
            agree.append(rounded(1 - wrong(mean, scaled.argmax(1)) / 100))
            apart.append(rounded(float((mean - scaled).abs().mean())))
    network.eval()
    return {"scaled": rounded(wrong(scaled, data.test_y)), "errors": errors, "agree": agree, "apart": apart}


# --------------------------------------------------------------------------------------------------------- showing

Architecture = tuple[int, int]


def architectures(numbers: Numbers) -> list[Architecture]:
    return list({(run["layers"], run["units"]): None for run in numbers["runs"]})


def error(numbers: Numbers, architecture: Architecture, amount: str, kept: float, part: str = "test") -> float:
    """Its mean over seeds, in percent."""
    return _mean(_errors(numbers, architecture, amount, kept, part))


def gain(numbers: Numbers, architecture: Architecture, amount: str) -> float:
    """By how many points dropout reduces the test error."""
    return error(numbers, architecture, amount, 1.0) - error(numbers, architecture, amount, numbers["kept"])


def agreements(numbers: Numbers) -> list[float]:
    """How often the averaged networks agree with the scaled one, by the number of thinned networks."""
    return [_mean(list(each)) for each in zip(*(found["agree"] for found in numbers["averages"]))]


def _errors(numbers: Numbers, architecture: Architecture, amount: str, kept: float, part: str) -> list[float]:
    wanted = (*architecture, amount, kept)
    return [r[part] for r in numbers["runs"] if (r["layers"], r["units"], r["amount"], r["kept"]) == wanted]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _titled(architecture: Architecture) -> str:
    layers, units = architecture
    return f"{layers} x {units}"


def _draw_errors(axes: Axes, numbers: Numbers, amount: str) -> None:
    """The two errors of each architecture, joined; every seed is a faint dot."""
    axes.set(title=f"From {numbers['examples'][amount]:,} examples", ylabel="test error, %", xlabel="layers x units")
    places = range(len(architectures(numbers)))
    for kept, colour, name in ((1.0, PALETTE[1], "without dropout"), (numbers["kept"], PALETTE[0], "with dropout")):
        means = [error(numbers, a, amount, kept) for a in architectures(numbers)]
        axes.plot(places, means, "o-", color=colour, label=name)
        for place, architecture in zip(places, architectures(numbers)):
            each = _errors(numbers, architecture, amount, kept, "test")
            axes.plot([place] * len(each), each, "o", color=colour, alpha=0.3, markersize=3)
    axes.set_xticks(list(places), [_titled(a) for a in architectures(numbers)])
    axes.legend(fontsize=8)
