"""Attention without positions ignores order: what shuffling its input changes, with positions and without.

First exactly, in an untrained encoder in float64: the output for a shuffled input is the shuffled output. Then by what
can be learnt: which of two letters, each occurring once, comes first depends on the order; which one occurs more often
does not, and is the control. The test of the first question has every sequence twice, the second time with the two
letters swapped: a model that ignores order gives both the same answer and gets half of them right.

A recurrent encoder, which needs no positions, is shown for comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from regard.encoder._base import Encoder
from regard.encoder.recurrent import RecurrentEncoder
from regard.encoder.transformer import TransformerEncoder
from regard.lab._drawing import FAINT, PALETTE, PAPER, TEXT, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict, one_thread
from regard.lab._learning import counter, learn
from regard.lab._numbers import ranged, rounded
from regard.model.classifier import Classifier
from regard.stem.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ShuffledInput"]


@dataclass(frozen=True)
class Recipe:
    length: int
    width: int
    layers: int
    steps: int
    seeds: int
    rate: float = 2e-3
    batch: int = 64
    tests: int = 500
    """Test sequences; those of the first question count twice."""
    shuffles: int = 20


SIZES = {
    "tiny": Recipe(length=6, width=16, layers=1, steps=250, seeds=1, rate=5e-3, tests=200, shuffles=5),
    "small": Recipe(length=12, width=32, layers=2, steps=400, seeds=2),
    "full": Recipe(length=20, width=48, layers=3, steps=1000, seeds=3, rate=1e-3, tests=1000),
}
MODELS = ("attention, no positions", "attention, learned positions", "attention, sinusoidal positions", "recurrent")
WITHOUT, *WITH = MODELS
LETTERS = 8
FIRST, SECOND = 0, 1
"""The two letters in question; the others are fillers."""
QUESTIONS = ("which came first", "which is more frequent")
EXACT, CHANGED = 1e-12, 1e-2
GUESSING, LEARNT = 0.55, 0.9


class ShuffledInput(Experiment):
    claim = "Attention without positions ignores order."
    lecture = "F15"
    threshold = (
        "For every seed: shuffling the input of an encoder without positions changes its outputs, put back in their "
        "places, by less than 1e-12 of their size, and by more than 1e-2 with positions of either kind and in a "
        "recurrent encoder; without positions at most 55 % can be told of which letter came first, with them 90 % or "
        "more; which letter is more frequent (the control) is told by all, without positions too, in 90 % or more."
    )
    code = (
        "regard.lab.shuffled_input.change_by_shuffling",
        "regard.lab.shuffled_input.answered",
        "regard.layers.attention.multi_head.MultiHead.self_attend",
        "regard.layers.position.none.NoPosition",
    )

    def run(self, size: str, setting: Setting) -> Numbers:
        recipe = SIZES[size]
        seeds = range(setting.seed, setting.seed + recipe.seeds)
        advance = counter(setting, len(MODELS) * len(QUESTIONS) * recipe.seeds * recipe.steps)
        with one_thread():
            changes = [
                {"model": model, "seed": seed, "change": rounded(change_by_shuffling(model, recipe, seed))}
                for model in MODELS
                for seed in seeds
            ]
            answers = [
                {"model": model, "question": question, "seed": seed}
                | answered(model, question, recipe, seed, setting.device, advance)
                for question in QUESTIONS
                for model in MODELS
                for seed in seeds
            ]
        return {"length": recipe.length, "letters": LETTERS, "changes": changes, "answers": answers}

    def table(self, numbers: Numbers) -> list[list[str]]:
        rows = [["", "changed by shuffling", *QUESTIONS, *(f"{question}, shuffled" for question in QUESTIONS)]]
        for model in MODELS:
            shares = [_mean(rights(numbers, model, q, key)) for key in ("right", "shuffled") for q in QUESTIONS]
            rows.append([model, ranged(changes(numbers, model)), *(f"{100 * share:.1f} %" for share in shares)])
        return rows

    def verdict(self, numbers: Numbers) -> Verdict:
        first, frequent = ({m: rights(numbers, m, question, "right") for m in MODELS} for question in QUESTIONS)
        deaf, hearing = changes(numbers, WITHOUT), [c for model in WITH for c in changes(numbers, model)]
        seen = [share for model in WITH for share in first[model]]
        held = (
            max(deaf) < EXACT
            and min(hearing) > CHANGED
            and max(first[WITHOUT]) <= GUESSING
            and min(seen) >= LEARNT
            and min(share for shares in frequent.values() for share in shares) >= LEARNT
        )
        return Verdict(
            held,
            f"shuffling changes what attention without positions gives by {ranged(deaf)} of its size, and by "
            f"{ranged(hearing)} with positions or in a recurrent encoder; which of two letters came first is told "
            f"right in {_percent(first[WITHOUT])} without positions and in {_percent(seen)} with an order, which of "
            f"them is more frequent in {_percent(frequent[WITHOUT])} without positions",
        )

    def remark(self, numbers: Numbers) -> str:
        kept, before = (rights(numbers, WITHOUT, QUESTIONS[1], key) for key in ("shuffled", "right"))
        same = "exactly" if kept == before else "nearly"
        return (
            "Every sequence of the tests is there with the two letters exchanged too, so who cannot see their order "
            "has half of the answers. Shuffled tests keep the answers of what was not shuffled: without positions "
            f"{same} as many are right as before; who had learnt to see which came first is led astray by every second "
            "shuffle."
        )

    def figure(self, numbers: Numbers) -> Figure:
        figure, (change, *questions) = panels(columns=3, width=4.4, height=3.2, sharey=True)
        change.set(title="Changed by shuffling", xlabel="share of the output's size", xscale="log", xlim=(1e-17, 10))
        change.set_yticks(range(len(MODELS)), MODELS)
        change.invert_yaxis()
        change.axvline(EXACT, color=FAINT, linewidth=1)
        for place, model in enumerate(MODELS):
            values = [max(value, 1e-17) for value in changes(numbers, model)]
            change.plot(values, [place] * len(values), "o", color=COLOURS[model])
        for axes, question in zip(questions, QUESTIONS):
            _draw_question(axes, numbers, question)
        return figure


# ------------------------------------------------------------------------------------------------------- measuring


def built(model: str, recipe: Recipe, seed: int) -> Classifier:
    """The same parts for all; only the position embedding or the encoder differs."""
    torch.manual_seed(seed)
    width, letters = recipe.width, LETTERS
    if model == "recurrent":
        stem = Tokens(letters, width, position="none", dropout=0)
        encoder: Encoder = RecurrentEncoder(width, width, layers=1, cell="gru", direction="both", dropout=0)
    else:
        position = {"no": "none", "learned": "learned", "sinusoidal": "sinusoidal"}[model.split()[1]]
        stem = Tokens(letters, width, position, dropout=0)
        encoder = TransformerEncoder(width, recipe.layers, 4, 4 * width, dropout=0, norm="pre")
    return Classifier(stem, encoder, labels=2, head_dropout=0)


@torch.no_grad()
def change_by_shuffling(model: str, recipe: Recipe, seed: int) -> float:
    """The largest |f(shuffled x) - shuffled f(x)| / |f(x)| over some shuffles, of an untrained encoder in float64."""
    network = built(model, recipe, seed).double().eval()
    random = torch.Generator().manual_seed(seed)
    source = torch.randint(LETTERS, (8, recipe.length), generator=random)
    before = states(network, source)
    largest = 0.0
    for _ in range(recipe.shuffles):
        order = torch.randperm(recipe.length, generator=random)
        difference = states(network, source[:, order]) - before[:, order]
        largest = max(largest, float(difference.norm() / before.norm()))
    return largest


def states(network: Classifier, source: Int[Tensor, "B S"]) -> Tensor:
    """The output of the encoder at every position."""
    mask = torch.ones_like(source, dtype=torch.bool)
    return network.encoder(*network.stem(source, mask)).states


def sequences(
    question: str, rows: int, length: int, random: torch.Generator
) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]:
    """Letters and balanced answers: 0 for FIRST, 1 for SECOND."""
    others = torch.randint(2, LETTERS, (rows, length), generator=random)
    answers = torch.randint(2, (rows,), generator=random)
    order = torch.rand(rows, length, generator=random).argsort(1)  # random positions
    if question == QUESTIONS[0]:
        earlier, later = order[:, :2].sort(1).values.unbind(1)
        others.scatter_(1, earlier[:, None], answers[:, None])
        others.scatter_(1, later[:, None], 1 - answers[:, None])
        return others, answers
    # More than half of an odd number of positions get the answer, the rest the other letter.
    asked = (length - 1) // 2 * 2 - 1
    more = torch.randint(asked // 2 + 1, asked + 1, (rows, 1), generator=random)
    given = torch.where(torch.arange(asked) < more, answers[:, None], 1 - answers[:, None])
    return others.scatter_(1, order[:, :asked], given), answers


def exchanged(source: Int[Tensor, "B S"]) -> Int[Tensor, "B S"]:
    """Swaps the two letters."""
    return torch.where(source == FIRST, SECOND, torch.where(source == SECOND, FIRST, source))


def answered(
    model: str, question: str, recipe: Recipe, seed: int, device: torch.device, advance: Callable[[], None]
) -> Numbers:
    """The test accuracy after training, on the sequences and on shuffled ones."""
    random = torch.Generator().manual_seed(seed)
    source, answers = sequences(question, recipe.tests, recipe.length, random)
    source, answers = torch.cat([source, exchanged(source)]), torch.cat([answers, 1 - answers])
    network = built(model, recipe, seed).to(device)

    def logits(source: Tensor) -> Tensor:
        source = source.to(device)
        return network(source, torch.ones_like(source, dtype=torch.bool))

    def loss() -> Tensor:
        shown, wanted = sequences(question, recipe.batch, recipe.length, random)
        return F.cross_entropy(logits(shown), wanted.to(device))

    learn(network, loss, recipe.steps, recipe.rate, advance, warmup=recipe.steps // 10)
    network.eval()
    order = torch.rand(source.shape, generator=random).argsort(1)
    with torch.no_grad():
        right, shuffled = (
            float((logits(each).argmax(1).cpu() == answers).float().mean())
            for each in (source, source.gather(1, order))
        )
    return {"right": rounded(right), "shuffled": rounded(shuffled)}


# --------------------------------------------------------------------------------------------------------- showing

COLOURS = dict(zip(MODELS, (PALETTE[1], PALETTE[0], PALETTE[4], PALETTE[2])))


def changes(numbers: Numbers, model: str) -> list[float]:
    return [found["change"] for found in numbers["changes"] if found["model"] == model]


def rights(numbers: Numbers, model: str, question: str, key: str) -> list[float]:
    return [a[key] for a in numbers["answers"] if (a["model"], a["question"]) == (model, question)]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _percent(shares: list[float]) -> str:
    low, high = (f"{100 * share:.1f}" for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _draw_question(axes: Axes, numbers: Numbers, question: str) -> None:
    axes.set(title=question.capitalize(), xlabel="right, %", xlim=(0, 105))
    axes.axvline(50, color=FAINT, linewidth=1)
    for place, model in enumerate(MODELS):
        for key, shift, alpha in (("right", -0.18, 1.0), ("shuffled", 0.18, 0.35)):
            share = 100 * _mean(rights(numbers, model, question, key))
            axes.barh(place + shift, share, height=0.32, color=COLOURS[model], alpha=alpha)
            named, colour = (" shuffled", TEXT) if key == "shuffled" else ("", PAPER)
            axes.text(2, place + shift, f"{share:.1f}{named}", va="center", fontsize=8, color=colour)
