"""Batch norm against layer norm in a recurrent network, by batch size and at untrained lengths.

An LSTM normalises its input, its recurrent product and its output. Layer norm (Ba et al. 2016, the package's own) needs
only the current example. Batch norm (Cooijmans et al. 2017) needs the mean and variance of every unit over a batch and,
in use, over the training data: either of each step, where the last trained step stands in for later ones, or one for
all steps. Both are measured on the same trained network.

After every letter the network predicts the most frequent letter so far, or the letter two steps ago. Its counts grow
with time, and its state starts empty. In the control nothing is remembered: the state is reset before every letter,
which is noisy and must be recognised, so that all steps are alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.lab._drawing import PALETTE, TILE, label_ends, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict, one_thread
from regard.lab._learning import counter, learn
from regard.lab._numbers import number, rounded
from regard.layers.cell.lstm import LSTM

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["NormsThroughTime"]


@dataclass(frozen=True)
class Recipe:
    length: int
    """Length of all training sequences; test sequences are longer."""
    width: int
    batches: tuple[int, ...]
    """Sequences per batch; the first is hard for batch norm, the last decides the rest."""
    steps: int
    seeds: int
    rate: float = 1e-2
    tests: int = 500
    gathered: int = 50
    """Batches over which the statistics for use are averaged."""


SIZES = {
    "tiny": Recipe(length=8, width=12, batches=(2, 32), steps=120, seeds=1, rate=2e-2, tests=300, gathered=20),
    "small": Recipe(length=16, width=24, batches=(2, 8, 64), steps=300, seeds=2),
    "full": Recipe(length=24, width=32, batches=(2, 4, 16, 64), steps=600, seeds=3, tests=1000),
}
LETTERS = 4
LONGER = 4
"""Length of test sequences relative to training sequences."""
LAYER, OWN, SHARED, NONE = "layer norm", "batch norm, each step's own", "batch norm, shared", "no norm"
WAYS = (LAYER, OWN, SHARED, NONE)
COUNTS, RECALLS, CONTROL = "most frequent so far", "two steps ago", "nothing remembered"
TASKS = (COUNTS, RECALLS, CONTROL)
NOISE = 0.4
"""Noise on the letters of the control, which would be too easy without it."""
WORSE, ALIKE, LOST, SMALL_BATCH = 2.0, 1.0, 5.0, 5.0


class NormsThroughTime(Experiment):
    claim = "Batch norm needs statistics of every step in a recurrent network; layer norm needs none."
    lecture = "F12"
    threshold = (
        "Means over seeds. With the largest batches and within the trained length, statistics that all steps share "
        "give at least 2 times the errors of each step's own in both tasks, and cost at most 1 point where nothing is "
        "remembered (the control); with batches of 2 layer norm is right in at least 5 points more than batch norm; "
        "beyond 3 times the trained length, where batch norm has no statistics, layer norm has lost at most 5 points "
        "more than it."
    )
    code = (
        "regard.lab.norms_through_time.OverBatch",
        "regard.layers.cell._base.Cell.recur",
        "regard.layers.cell.lstm.LSTM.step",
    )

    def run(self, size: str, setting: Setting) -> Numbers:
        recipe = SIZES[size]
        largest = recipe.batches[-1]
        plan = [(COUNTS, batch) for batch in recipe.batches] + [(RECALLS, largest), (CONTROL, largest)]
        seeds = range(setting.seed, setting.seed + recipe.seeds)
        advance = counter(setting, len(plan) * 3 * recipe.seeds * recipe.steps)
        found, spreads = [], []
        with one_thread():
            for task, batch in plan:
                for norm in (LAYER, OWN, NONE):
                    for seed in seeds:
                        network = Network(norm, task, batch, recipe, seed, setting.device)
                        learn(network, network.loss, recipe.steps, recipe.rate, advance, warmup=recipe.steps // 20)
                        if norm == OWN:
                            network.gather()
                            if batch == largest:
                                spreads.append({"task": task, "seed": seed, "spread": network.spreads()})
                        about = {"task": task, "batch": batch, "seed": seed}
                        for way in (OWN, SHARED) if norm == OWN else (norm,):
                            found.append(about | {"way": way, "right": network.rights(way)})
        return {"trained": recipe.length, "batches": list(recipe.batches), "found": found, "spreads": spreads}

    def table(self, numbers: Numbers) -> list[list[str]]:
        trained = numbers["trained"]
        places = (f"steps 1 to {trained}, as trained", f"steps {3 * trained + 1} to {LONGER * trained}")
        rows = [["right, %", "task", "batch", *places]]
        for task, batch in {(f["task"], f["batch"]): None for f in numbers["found"]}:
            for way in WAYS:
                shares = (within(numbers, way, task, batch), beyond(numbers, way, task, batch))
                rows.append([way, task, str(batch), *(f"{share:.1f}" for share in shares)])
        return rows

    def verdict(self, numbers: Numbers) -> Verdict:
        small, *_, large = numbers["batches"]
        times = {
            task: (100 - within(numbers, SHARED, task, large)) / max(100 - within(numbers, OWN, task, large), 0.1)
            for task in (COUNTS, RECALLS)
        }
        control = within(numbers, OWN, CONTROL, large) - within(numbers, SHARED, CONTROL, large)
        better = within(numbers, LAYER, COUNTS, small) - within(numbers, OWN, COUNTS, small)
        more = [lost(numbers, LAYER, task) - lost(numbers, OWN, task) for task in (COUNTS, RECALLS)]
        batch_lost, layer_lost = (
            " and ".join(_points(lost(numbers, way, task)) for task in (COUNTS, RECALLS)) for way in (OWN, LAYER)
        )
        return Verdict(
            min(times.values()) >= WORSE and control <= ALIKE and better >= SMALL_BATCH and max(more) <= LOST,
            f"with statistics that all steps share batch norm makes {times[COUNTS]:.1f} times the errors it makes with "
            f"each step's own where letters are counted and {times[RECALLS]:.1f} times where one is recalled, and "
            f"loses {control:.1f} points where nothing is remembered; with batches of {small} layer norm is better by "
            f"{better:.1f} points; far beyond the trained length batch norm has lost {batch_lost} points, layer norm "
            f"{layer_lost}",
        )

    def remark(self, numbers: Numbers) -> str:
        counts, recalls, control = (_growth(numbers, task) for task in TASKS)
        more = max(lost(numbers, OWN, task) - lost(numbers, LAYER, task) for task in (COUNTS, RECALLS))
        felt = "is felt" if more > LOST else "is hardly felt"
        return (
            "Beyond the trained length batch norm has no statistics and takes the last trained step's; that it has "
            f"none of its own {felt} with the largest batches: it loses at most {more:.1f} points more there than "
            "layer norm. From the first to the last trained step, the spread of the cells over sequences becomes "
            f"{counts:.1f} times as large where letters are counted, {recalls:.1f} times where one is recalled and "
            f"{control:.1f} times in the control."
        )

    def figure(self, numbers: Numbers) -> Figure:
        figure, (sizes, *tasks) = panels(columns=2, rows=2, width=5.2, height=3.4)
        batches, trained = numbers["batches"], numbers["trained"]
        sizes.set(title=f"{COUNTS.capitalize()}, as trained", xlabel="sequences in a batch", ylabel="right, %")
        sizes.set(xscale="log", ylim=SCALE, yticks=range(30, 101, 10))
        lines = {way: [within(numbers, way, COUNTS, batch) for batch in batches] for way in WAYS}
        for way, line in lines.items():
            sizes.plot(batches, line, "o-", color=COLOURS[way], markersize=3)
        sizes.set_xticks(batches, [str(batch) for batch in batches])
        sizes.minorticks_off()
        label_ends(sizes, [(line[-1], way, COLOURS[way]) for way, line in lines.items()])
        for panel, task in zip(tasks, TASKS):
            panel.set(title=f"{task.capitalize()}, batches of {batches[-1]}", xlabel="step", ylabel="right, %")
            panel.set(ylim=SCALE, yticks=range(30, 101, 10))
            panel.axvspan(1, trained, color=TILE, zorder=0)
            labels = []
            for way in WAYS:
                line = at_steps(numbers, way, task, batches[-1])
                panel.plot(range(1, len(line) + 1), line, color=COLOURS[way], linewidth=1.4)
                labels.append((line[-1], way, COLOURS[way]))
            label_ends(panel, labels)
        return figure


# ------------------------------------------------------------------------------------------------------- measuring


class OverBatch(nn.Module):
    """gain (x - mean) / sqrt(variance + eps) + shift, where mean and variance are a step's over the batch.

    The gain begins at 0.1, so that the cell's functions are not saturated (Cooijmans et al. 2017, 4). In use the
    statistics are those that were gathered: the step's own (the last one's where there are no more) or their mean.
    """

    def __init__(self, width: int, shift: bool):
        super().__init__()
        self.gain = nn.Parameter(torch.full((width,), 0.1))
        self.shift = nn.Parameter(torch.zeros(width), requires_grad=shift)
        self.time = 0
        self.uses = "batch"
        self.sums: dict[int, list[Tensor]] = {}
        """For each step the sums over gathered batches of mean and variance, and their number."""

    def forward(self, x: Float[Tensor, "*A G"]) -> Float[Tensor, "*A G"]:
        """One step (B, G), which follows the last one, or several at once (B, T, G)."""
        first = self.time
        if x.ndim == 2:
            self.time += 1
            return self._normed(x[:, None], first)[:, 0]
        return self._normed(x, first)

    def _normed(self, x: Float[Tensor, "B T G"], first: int) -> Float[Tensor, "B T G"]:
        if self.uses in ("batch", "gather"):
            mean, variance = x.mean(0), x.var(0, correction=0)
            if self.uses == "gather":
                self._add(mean, x.var(0), first)
        else:
            mean, variance = self._kept(first, x.shape[1])
        return self.gain * (x - mean) / (variance + 1e-5).sqrt() + self.shift

    def _add(self, mean: Float[Tensor, "T G"], variance: Float[Tensor, "T G"], first: int) -> None:
        for time, added in enumerate(zip(mean, variance, torch.ones_like(mean)), first):
            before = self.sums.get(time, [torch.zeros_like(part) for part in added])
            self.sums[time] = [old + new for old, new in zip(before, added)]

    def statistics(self) -> tuple[Float[Tensor, "T G"], Float[Tensor, "T G"]]:
        """Mean and variance of every step that was gathered."""
        mean, variance, count = (torch.stack(part) for part in zip(*(self.sums[t] for t in sorted(self.sums))))
        return mean / count, variance / count

    def _kept(self, first: int, count: int) -> tuple[Float[Tensor, "T G"], Float[Tensor, "T G"]]:
        mean, variance = self.statistics()
        if self.uses == SHARED:
            return mean.mean(0, keepdim=True), variance.mean(0, keepdim=True)
        times = torch.arange(first, first + count, device=mean.device).clamp(max=len(mean) - 1)
        return mean[times], variance[times]


class Network(nn.Module):
    """An LSTM over letters, with a linear output after each."""

    def __init__(self, norm: str, task: str, batch: int, recipe: Recipe, seed: int, device: torch.device):
        super().__init__()
        torch.manual_seed(seed)
        self.task, self.batch, self.recipe = task, batch, recipe
        self.cell = LSTM(LETTERS, recipe.width, norm=norm != NONE)
        self.line = nn.Linear(recipe.width, LETTERS)
        self.over_batch: list[OverBatch] = []
        if norm == OWN:
            rows = 4 * recipe.width
            self.cell.norm_inward, self.cell.norm_recurrent = OverBatch(rows, False), OverBatch(rows, False)
            self.cell.norm_cell = OverBatch(recipe.width, True)
            self.over_batch = [self.cell.norm_inward, self.cell.norm_recurrent, self.cell.norm_cell]
        self.to(device)
        self.device = device
        self.random = torch.Generator().manual_seed(seed)

    def forward(self, letters: Int[Tensor, "B T"]) -> Float[Tensor, "B T L"]:
        x = F.one_hot(letters, LETTERS).float()
        if self.task != CONTROL:
            return self.line(self._read(x, 0))
        x = x + NOISE * torch.randn(x.shape, generator=self.random).to(x.device)
        return self.line(torch.cat([self._read(x[:, t : t + 1], t) for t in range(x.shape[1])], 1))

    def _read(self, x: Float[Tensor, "B T L"], first: int) -> Float[Tensor, "B T W"]:
        """The hidden states from an empty one; the first letter is that of step `first`."""
        for norm in self.over_batch:
            norm.time = first
        return self.cell(x)[0]

    def sequences(self, rows: int, length: int) -> Int[Tensor, "B T"]:
        return torch.randint(LETTERS, (rows, length), generator=self.random).to(self.device)

    def loss(self) -> Tensor:
        letters = self.sequences(self.batch, self.recipe.length)
        wanted, asked = answers(self.task, letters)
        return F.cross_entropy(self(letters)[asked], wanted[asked])

    @torch.no_grad()
    def gather(self) -> None:
        """Gathers the statistics for use from training batches."""
        for norm in self.over_batch:
            norm.uses = "gather"
        for _ in range(self.recipe.gathered):
            self(self.sequences(self.batch, self.recipe.length))

    @torch.no_grad()
    def rights(self, way: str) -> list[float | None]:
        """The accuracy at every step of long sequences, the same ones for all variants."""
        for norm in self.over_batch:
            norm.uses = way
        self.random.manual_seed(0)
        letters = self.sequences(self.recipe.tests, LONGER * self.recipe.length)
        wanted, asked = answers(self.task, letters)
        right = (self(letters).argmax(-1) == wanted) & asked
        return [rounded(share) for share in (right.sum(0) / asked.sum(0)).tolist()]

    def spreads(self) -> list[float | None]:
        """The mean standard deviation of the cells over sequences, at every trained step."""
        _, variance = self.over_batch[-1].statistics()
        return [rounded(float(step.sqrt().mean())) for step in variance]


def answers(task: str, letters: Int[Tensor, "B T"]) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """The target after each letter, and whether it is unique: not where two letters are equally frequent."""
    if task != COUNTS:
        back = 2 if task == RECALLS else 0
        wanted, asked = letters.roll(back, 1), torch.ones_like(letters, dtype=torch.bool)
        asked[:, :back] = False
        return wanted, asked
    counts = F.one_hot(letters, LETTERS).cumsum(1)
    (most, next_most), (wanted, _) = (part.unbind(-1) for part in counts.topk(2, -1))
    return wanted, most > next_most


# --------------------------------------------------------------------------------------------------------- showing

COLOURS = dict(zip(WAYS, (PALETTE[0], PALETTE[2], PALETTE[1], PALETTE[3])))


SCALE = (100 / LETTERS, 110)
"""From chance level to 100 %, with room for labels above."""


def at_steps(numbers: Numbers, way: str, task: str, batch: int) -> list[float]:
    """The accuracy in percent at each step, the mean over seeds; NaN where there is no target."""
    found = [f["right"] for f in numbers["found"] if (f["way"], f["task"], f["batch"]) == (way, task, batch)]
    return [100 * sum(map(number, each)) / len(each) for each in zip(*found)]


def within(numbers: Numbers, way: str, task: str, batch: int) -> float:
    """The mean over the trained steps."""
    return _mean(at_steps(numbers, way, task, batch)[: numbers["trained"]])


def beyond(numbers: Numbers, way: str, task: str, batch: int) -> float:
    """The mean over the last steps, which are more than 3 times as far as the trained ones."""
    return _mean(at_steps(numbers, way, task, batch)[-numbers["trained"] :])


def lost(numbers: Numbers, way: str, task: str) -> float:
    """Points, from the trained steps to the last, with the largest batches."""
    batch = numbers["batches"][-1]
    return within(numbers, way, task, batch) - beyond(numbers, way, task, batch)


def _points(value: float) -> str:
    return f"{round(value, 1) + 0.0:.1f}"  # avoids -0.0


def _mean(shares: list[float]) -> float:
    asked = [share for share in shares if not math.isnan(share)]
    return sum(asked) / len(asked)


def _growth(numbers: Numbers, task: str) -> float:
    """The ratio of the spread at the last trained step to that at the first, the mean over seeds."""
    return _mean([s["spread"][-1] / s["spread"][0] for s in numbers["spreads"] if s["task"] == task])
