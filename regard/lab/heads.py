"""What the heads of the shipped translator attend to, whether any two are alike, and the effect of removing some.

The profile of a head is the weight on the previous token, the token itself, the next one, positions farther away on
either side, and END. The control has the same architecture and sentences but is untrained. That heads differ in
importance is shown by removing them in the order of the gradient of the loss with respect to their gates (Michel et al.
2019) and in the opposite order.

The tiny and small sizes use everyday sentences that ship with the package, the full one held-out pairs of Tatoeba.
Importance is always measured on other sentences than those that are translated.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import torch

from regard.assemble import build_model
from regard.data.corpus import read_pairs
from regard.data.corpus.hold_out import choose
from regard.evaluation.translation import corpus_scores
from regard.lab._drawing import FAINT, PALETTE, PAPER, label_ends, panels
from regard.lab._everyday import OTHERS, TESTED, Pair
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict, one_thread
from regard.lab._heads import as_ids, attentions, gated, importance, seen
from regard.lab._numbers import rounded
from regard.loading import load

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.task.translate import Translator

__all__ = ["Heads"]

Head = tuple[str, int]
"""The name of an attention, and the index of a head."""


@dataclass(frozen=True)
class Recipe:
    measured: int
    """Pairs for profiles and importances."""
    tested: int
    """Pairs to translate with heads removed."""
    shares: tuple[float, ...]
    """Shares of all heads to remove; one of them is THIRD."""
    shuffles: int
    """Random orders of removal."""
    real: bool = False


THIRD = 1 / 3
SIZES = {
    "tiny": Recipe(measured=6, tested=6, shares=(0, THIRD), shuffles=1),
    "small": Recipe(measured=40, tested=60, shares=(0, 1 / 12, 1 / 6, 1 / 4, THIRD, 1 / 2, 2 / 3), shuffles=3),
    "full": Recipe(
        measured=500, tested=1000, shares=(0, 1 / 12, 1 / 6, 1 / 4, THIRD, 1 / 2, 2 / 3), shuffles=5, real=True
    ),
}
PARTS = ("encoder", "decoder", "across")
LEAST, MOST, RANDOM = "least important first", "most important first", "random order"
TATOEBA = "tatoeba_en_fr/fra-eng.tsv.gz"
FOR, APART, ALIKE = 0.4, 0.05, 0.25
"""The weight that makes a neighbour what a head is for; bits between two profiles; the control's share of those."""
KEPT, LOST = 0.8, 0.4
"""Share of BLEU with a third of the heads removed."""


class Heads(Experiment):
    claim = "Heads look at different things."
    lecture = "F14"
    threshold = (
        "In the trained encoder some head gives the previous token at least 40 % of its weight on average and another "
        "the next one as much, and the profiles of two heads of a layer are at least 0.05 bits apart on average; in "
        "one with random weights (the control) no head gives a neighbour 40 %, and profiles are at most a quarter as "
        "far apart. With a third of all heads taken away, the least important first, at least 80 % of BLEU is left, "
        "the most important first at most 40 %."
    )
    data = ("tatoeba_en_fr",)
    code = ("regard.lab._heads.seen", "regard.lab._heads.importance", "regard.layers.attend.attention_weights")

    def run(self, size: str, setting: Setting) -> Numbers:
        recipe = SIZES[size]
        learn, test = sentences(recipe, setting)
        with one_thread():
            translator: Translator = load("fr-en", device=str(setting.device))
            pairs = as_ids(translator, learn)
            with torch.random.fork_rng():
                torch.manual_seed(setting.seed)
                control = build_model(translator.recipe.model, **translator.tokenizer.sizes())
            found = {
                "trained": seen(translator.model, pairs, setting.device),
                "untrained": seen(control.to(setting.device).eval(), pairs, setting.device),
            }
            setting.note("measuring what each head is worth")
            worth = importance(translator.model, pairs, setting.device)
            removed = [round(share * sum(map(len, worth.values()))) for share in recipe.shares]
            orders = {LEAST: by_worth(worth), MOST: by_worth(worth)[::-1]}
            for shuffle in range(recipe.shuffles):
                orders[f"{RANDOM} {shuffle + 1}"] = shuffled(by_worth(worth), setting.seed + shuffle)
            bleu = {}
            for done, (name, order) in enumerate(orders.items()):
                setting.progress(done, len(orders), "translating with fewer heads")
                bleu[name] = list(scores(translator, order, removed, test))
            setting.progress(len(orders), len(orders), "translating with fewer heads")
        return {
            "sentences": "Tatoeba" if recipe.real else "everyday sentences",
            "measured": len(learn),
            "tested": len(test),
            "seen": _rounded(found),
            "importance": _rounded(worth),
            "removed": removed,
            "bleu": _rounded(bleu),
        }

    def table(self, numbers: Numbers) -> list[list[str]]:
        rows = [["", *numbers["seen"]]]
        for part in PARTS:
            every = [_part(found, part) for found in numbers["seen"].values()]
            there = next(iter(every[0].values()))
            for key in ("previous", "same", "next"):
                if key in there:
                    cells = [f"{_largest(found, key):.0%}" for found in every]
                    rows.append([f"{part}: most weight a head gives the {key} token", *cells])
            spans = [[value for one in found.values() for value in one["entropy"]] for found in every]
            rows.append([f"{part}: entropy of heads", *(f"{min(span):.2f} to {max(span):.2f}" for span in spans)])
            for key, title in (
                ("profiles_apart", "profiles of two heads apart"),
                ("apart", "weights of two heads apart"),
            ):
                if key in there:
                    rows.append([f"{part}: {title}, bits", *(f"{apart(found, key):.3f}" for found in every)])
        for count, *bleu in zip(numbers["removed"], *left(numbers).values()):
            cell = "{:.1f}, {:.1f}, {:.1f}".format(*bleu)
            rows.append([f"BLEU without {count} of {_count(numbers)} heads: least, most important, random", cell, ""])
        return rows

    def verdict(self, numbers: Numbers) -> Verdict:
        encoder = {which: _part(found, "encoder") for which, found in numbers["seen"].items()}
        best = {(which, key): _largest(found, key) for which, found in encoder.items() for key in ("previous", "next")}
        far = {which: apart(found, "profiles_apart") for which, found in encoder.items()}
        curves = left(numbers)
        third = numbers["removed"].index(round(THIRD * _count(numbers)))
        kept = {name: values[third] / values[0] if values[0] else 0.0 for name, values in curves.items()}
        held = (
            best["trained", "previous"] >= FOR
            and best["trained", "next"] >= FOR
            and far["trained"] >= APART
            and max(best["untrained", "previous"], best["untrained", "next"]) < FOR
            and far["untrained"] <= ALIKE * far["trained"]
            and kept[LEAST] >= KEPT
            and kept[MOST] <= LOST
        )
        return Verdict(
            held,
            f"one head of the encoder gives the previous token {best['trained', 'previous']:.0%} of its weight and one "
            f"the next {best['trained', 'next']:.0%} (untrained {best['untrained', 'previous']:.0%} and "
            f"{best['untrained', 'next']:.0%}), profiles are {far['trained']:.3f} bits apart (untrained "
            f"{far['untrained']:.3f}), and without a third of the heads {kept[LEAST]:.0%} of BLEU is left, the least "
            f"important first, {kept[MOST]:.0%} the most important first, {kept[RANDOM]:.0%} in random order",
        )

    def remark(self, numbers: Numbers) -> str:
        untrained = apart(_part(numbers["seen"]["untrained"], "encoder"), "apart")
        return (
            f"Heads were looked at on {numbers['measured']} pairs ({numbers['sentences']}), and {numbers['tested']} "
            f"others translated, greedily. Entropy is a share of the most there can be; bits are of Jensen-Shannon "
            f"divergence between two heads of a layer: of their profiles, and of the weights of each token, averaged. "
            f"By the latter untrained heads are {untrained:.3f} apart: random heads, too, look at different tokens, "
            f"only not for any reason of place. The paper divides a head's worth by the norm of its layer's; we did so "
            f"first, and after a look at what came of it no longer do."
        )

    def figure(self, numbers: Numbers) -> Figure:
        figure, axes = panels(columns=3, width=4.2, height=4.6)
        for panel, (which, found) in zip(axes, numbers["seen"].items()):
            _draw_profiles(panel, _part(found, "encoder"), f"Where encoder heads look, {which}")
        _draw_pruning(axes[2], numbers)
        return figure


# ------------------------------------------------------------------------------------------------------- measuring


def sentences(recipe: Recipe, setting: Setting) -> tuple[list[Pair], list[Pair]]:
    """Pairs for measuring heads, and others to translate."""
    if not recipe.real:
        return list(OTHERS[: recipe.measured]), list(TESTED[: recipe.tested])
    file = setting.data / TATOEBA
    setting.note("reading Tatoeba")
    valid, test = choose(read_pairs([f"{file}#2"], [f"{file}#1"]), [1000, 2000])  # held out as in recipes/fr-en.toml
    return valid[: recipe.measured], test[: recipe.tested]


def by_worth(worth: dict[str, list[float]]) -> list[Head]:
    """All heads, the least important first.

    The paper normalises importances by layer, which hides that the heads of one layer may matter more than all of
    another: here those of cross-attention, of which a decoder of two layers has few.
    """
    return [
        head for _, head in sorted((value, (name, i)) for name, all_ in worth.items() for i, value in enumerate(all_))
    ]


def shuffled(heads: list[Head], seed: int) -> list[Head]:
    order = sorted(heads)
    random.Random(seed).shuffle(order)
    return order


def scores(
    translator: Translator, order: Sequence[Head], removed: Sequence[int], test: Sequence[Pair]
) -> Iterator[float]:
    """BLEU with the first heads of an order removed."""
    found = attentions(translator.model)
    gates = {name: torch.ones(attention.heads, device=translator.device) for name, attention in found.items()}
    with gated({found[name]: gate for name, gate in gates.items()}):
        for count in removed:
            for name, head in order[:count]:
                gates[name][head] = 0
            outputs = [translation.text for translation in translator.translate([s for s, _ in test], beam=1)]
            yield corpus_scores(outputs, [target for _, target in test]).bleu


def _rounded(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _rounded(value) for key, value in tree.items()}
    return [_rounded(value) for value in tree] if isinstance(tree, list) else rounded(tree)


# --------------------------------------------------------------------------------------------------------- showing


def apart(found: dict[str, Any], key: str) -> float:
    """The mean over all pairs of heads in the same layer."""
    values = [one[key][a][b] for one in found.values() for a, b in combinations(range(len(one[key])), 2)]
    return sum(values) / len(values)


def left(numbers: Numbers) -> dict[str, list[float]]:
    """BLEU by heads removed; random orders are averaged."""
    bleu = numbers["bleu"]
    drawn = [values for name, values in bleu.items() if name.startswith(RANDOM)]
    return {LEAST: bleu[LEAST], MOST: bleu[MOST], RANDOM: [sum(values) / len(values) for values in zip(*drawn)]}


def _part(found: dict[str, Any], part: str) -> dict[str, Any]:
    """The self-attentions of encoder or decoder, or the cross-attentions."""
    across = part == "across"
    begins = "decoder" if across else part
    return {name: v for name, v in found.items() if name.startswith(begins) and ("cross_attention" in name) == across}


def _largest(found: dict[str, Any], key: str) -> float:
    return max(max(one[key]) for one in found.values())


def _count(numbers: Numbers) -> int:
    return sum(map(len, numbers["importance"].values()))


def _draw_profiles(axes: Axes, found: dict[str, Any], title: str) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    rows = [profile for one in found.values() for profile in one["profile"]]
    ink = LinearSegmentedColormap.from_list("ink", [PAPER, PALETTE[0]])
    axes.imshow(rows, aspect="auto", cmap=ink, vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks(range(8), ["≤-3", "-2", "before", "itself", "after", "+2", "≥+3", "end"], rotation=45, fontsize=8)
    heads = len(rows) // len(found)
    middles = [layer * heads + (heads - 1) / 2 for layer in range(len(found))]
    axes.set_yticks(middles, [f"layer {layer + 1}" for layer in range(len(found))], fontsize=8)
    for layer in range(1, len(found)):
        axes.axhline(layer * heads - 0.5, color=FAINT, linewidth=0.5)
    axes.grid(False)
    axes.set(title=title)


def _draw_pruning(axes: Axes, numbers: Numbers) -> None:
    shares = [count / _count(numbers) for count in numbers["removed"]]
    labels = []
    for (name, values), colour in zip(left(numbers).items(), (PALETTE[2], PALETTE[1], PALETTE[0])):
        axes.plot(shares, values, "o-", color=colour, markersize=3)
        labels.append((values[-1], name.replace(" first", ""), colour))
    for name, values in numbers["bleu"].items():
        if name.startswith(RANDOM):
            axes.plot(shares, values, "-", color=PALETTE[0], linewidth=0.6, alpha=0.4)
    axes.set(title="BLEU without some heads", xlabel="share of the heads taken away", ylim=(0, None))
    label_ends(axes, labels)
