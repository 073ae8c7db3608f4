"""Whether attention, and the methods of attribution, name the source words that an output depends on.

A method ranks the words of a source for one output token. Words are then removed from the source for good, the best
ranked first (deletion), or put back into an empty source in this order (insertion), and the probability of the output,
after the same words written before, is measured after each (Samek et al. 2017; Petsiuk, Das and Saenko 2018). The
tokens are gone from the sequence, which is not what any method does to compute its values. An output counts only if
the source as a whole makes it at least 20 points likelier: where it follows from the words before, there is nothing to
find.

The tiny and small sizes use everyday sentences that ship with the package, the full one held-out pairs of Tatoeba.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import torch

from regard.data.batching import pad
from regard.data.corpus import read_pairs
from regard.data.corpus.hold_out import choose
from regard.inspection.record.attribution import methods_of
from regard.inspection.trace.base import CROSS, Choice
from regard.lab._drawing import FAINT, PALETTE, TEXT, panels
from regard.lab._everyday import OTHERS, TESTED
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict, one_thread
from regard.lab._numbers import rounded
from regard.loading import load
from regard.types import BEGIN, END

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.inspection.trace.translation import TranslationTrace
    from regard.task.translate import Translator

__all__ = ["Attribution"]

MODELS = ("fr-en", "fr-en-bahdanau", "fr-en-luong", "fr-en-plain")


Curves = dict[str, tuple[list[float], list[float]]]
"""Of one output, for each order: its probabilities while words are removed, and while they are put back."""


@dataclass(frozen=True)
class Recipe:
    sentences: int
    models: tuple[str, ...] = MODELS
    parts: int = 1
    """How many processes can share the sentences of a model."""
    real: bool = False


SIZES = {
    "tiny": Recipe(1, ("fr-en-luong", "fr-en")),
    "small": Recipe(12, ("fr-en-bahdanau", "fr-en-luong", "fr-en-plain")),
    "full": Recipe(200, parts=4, real=True),
}
ATTENTION, RANDOM, CONTROL, BACKWARDS = "attention", "random", "another random order", "attention, least first"
DRAWS = 5
"""Random orders that are averaged."""
SHORTEST, LONGEST = 4, 16
"""Words of a sentence."""
MATTERS = 0.2
"""How much likelier the source must make an output."""
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of the words at which curves are drawn."""
GAIN, NEAR, NOTHING = 0.05, 0.8, 0.02
TATOEBA = "tatoeba_en_fr/fra-eng.tsv.gz"


class Attribution(Experiment):
    claim = "Attention shows which source words an output depends on."
    lecture = "F14"
    threshold = (
        "In every model with attention, while words are removed in the order of their attention weights the "
        "probability of the output is on average at least 0.05 lower than while they are removed in random order, and "
        "while they are put back in this order at least 0.05 higher; the first of these gains is at least 80 % of that "
        "of the best method of attribution. One more random order (the control) gains less than 0.02, and so does "
        "attention with the least weight first."
    )
    data = ("tatoeba_en_fr",)
    code = ("regard.lab.attribution.curves", "regard.inspection.attribute.attribute")

    def run(self, size: str, setting: Setting) -> Numbers:
        recipe = SIZES[size]
        parts = [(name, size, part) for name in recipe.models for part in range(recipe.parts)]
        alone = Setting(setting.seed, setting.device, setting.data)  # what can be sent to another process
        several: dict[str, list[Curves]] = {}
        with contextlib.ExitStack() as stack:
            results: Iterator[list[Curves]] = map(partial(explained, alone), parts)
            if setting.jobs > 1:
                processes = ProcessPoolExecutor(setting.jobs, get_context("spawn"))
                results = stack.enter_context(processes).map(partial(explained, alone), parts)
            for done, (name, _, _) in enumerate(parts):
                setting.progress(done, len(parts), name)
                several.setdefault(name, []).extend(next(results))
        setting.progress(len(parts), len(parts), name)
        return {
            "sentences": "Tatoeba" if recipe.real else "everyday sentences",
            "found": {name: summary(curves) for name, curves in several.items()},
        }

    def table(self, numbers: Numbers) -> list[list[str]]:
        rows = [["order of the words: gain over random order, deletion and insertion", *numbers["found"]]]
        for method in _methods(numbers):
            cells = []
            for one in numbers["found"].values():
                there = method in one
                cells.append("{:+.3f}, {:+.3f}".format(*gains(one, method)) if there else "")
            rows.append([method.replace("_", " "), *cells])
        return rows

    def verdict(self, numbers: Numbers) -> Verdict:
        attended = {name: one for name, one in numbers["found"].items() if ATTENTION in one}
        own = {name: gains(one, ATTENTION) for name, one in attended.items()}
        best = {
            name: max((gains(one, m)[0], m) for m in one if m not in OTHER_ORDERS) for name, one in attended.items()
        }
        share = {name: own[name][0] / best[name][0] if best[name][0] > 0 else 1.0 for name in own}
        controls = [gain for one in attended.values() for order in (CONTROL, BACKWARDS) for gain in gains(one, order)]
        held = (
            all(min(gain) >= GAIN for gain in own.values())
            and all(one >= NEAR for one in share.values())
            and max(controls) < NOTHING
        )
        least = min(own, key=lambda name: own[name][0])
        behind = min(share, key=lambda name: share[name])
        return Verdict(
            held,
            f"removing words by attention gains {own[least][0]:.3f} over random order in the model where it gains "
            f"least ({least}), and between {min(share.values()):.0%} ({behind}) and {max(share.values()):.0%} of what "
            f"the best method gains (there {best[behind][1].replace('_', ' ')}, {best[behind][0]:.3f}); the controls "
            f"gain {max(controls):.3f} at most",
            "" if held or min(own[least]) < GAIN else "attention is far better than chance in every model",
        )

    def remark(self, numbers: Numbers) -> str:
        counts = sorted({one[RANDOM]["sentences"] for one in numbers["found"].values()})
        winners = {
            name: max((gains(one, method)[0], method) for method in one if method not in (*OTHER_ORDERS, ATTENTION))[1]
            for name, one in numbers["found"].items()
        }
        sentences = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        named = ", ".join(f"{name} {winner.replace('_', ' ')}" for name, winner in winners.items())
        return (
            f"One output of each of {sentences} sentences per model ({numbers['sentences']}), one "
            f"that the source makes at least {MATTERS:.0%} likelier. A gain is the difference between the areas under "
            f"two curves, in probability: for deletion the random order's area less the method's, for insertion the "
            f"other way round. Attention is the mean of all layers and heads of the cross-attention, as in the view "
            f"alignment. The best in deletion: {named}."
        )

    def figure(self, numbers: Numbers) -> Figure:
        names = list(numbers["found"])
        figure, axes = panels(columns=len(names), rows=2, width=3.7, height=3.3, sharey=True)
        methods = [method for method in _methods(numbers) if method not in (CONTROL, BACKWARDS)]
        own = [method for method in methods if method not in (RANDOM, ATTENTION)]
        colours = {RANDOM: FAINT, ATTENTION: TEXT} | dict(zip(own, [*PALETTE, *PALETTE]))
        lines = {}
        for row, curve in enumerate(("deletion", "insertion")):
            for panel, name in zip(axes[row * len(names) :], names):
                for method, found in numbers["found"][name].items():
                    if method in colours:
                        dashed = "--" if method == ATTENTION else "-"
                        (line,) = panel.plot(SHARES, found[curve], dashed, color=colours[method], linewidth=1.2)
                        lines[method.replace("_", " ")] = line
                done = "removed" if curve == "deletion" else "put back"
                panel.set(title=name, xlabel=f"share of the words {done}", ylim=(0, 1))
            axes[row * len(names)].set(ylabel="probability of the output")
        figure.legend(lines.values(), lines.keys(), loc="outside right center")
        return figure


OTHER_ORDERS = (ATTENTION, RANDOM, CONTROL, BACKWARDS)
"""Orders that are no method of attribution."""


def gains(found: dict[str, Any], method: str) -> tuple[float, float]:
    """How much better than random order: the area below its deletion curve is smaller, that of insertion larger."""
    return (
        found[RANDOM]["deleted"] - found[method]["deleted"],
        found[method]["inserted"] - found[RANDOM]["inserted"],
    )


# ------------------------------------------------------------------------------------------------------- measuring


def explained(setting: Setting, part: tuple[str, str, int]) -> list[Curves]:
    """The curves of one output of each sentence: of a part of the sentences, for one model."""
    name, size, number = part
    recipe = SIZES[size]
    with one_thread():
        translator: Translator = load(name, device=str(setting.device))
        own = [(at, text) for at, text in enumerate(texts(recipe, setting)) if at % recipe.parts == number]
        return [
            curves(translator, trace, position, ranked(translator, trace, position, chance))
            for trace, position, chance in islice(
                outputs(translator, own, setting.seed), recipe.sentences // recipe.parts
            )
        ]


def summary(several: Sequence[Curves]) -> dict[str, Any]:
    """The mean curves of each method, and the means of the areas below them."""
    return {
        method: {
            "sentences": len(several),
            "deletion": _mean_curve([one[method][0] for one in several]),
            "insertion": _mean_curve([one[method][1] for one in several]),
            "deleted": rounded(_mean([_mean(one[method][0]) for one in several])),
            "inserted": rounded(_mean([_mean(one[method][1]) for one in several])),
        }
        for method in several[0]
    }


def texts(recipe: Recipe, setting: Setting) -> list[str]:
    if not recipe.real:
        return [source for source, _ in (*TESTED, *OTHERS)]
    file = setting.data / TATOEBA
    _, test = choose(read_pairs([f"{file}#2"], [f"{file}#1"]), [1000, 2000])  # held out as in recipes/fr-en.toml
    return [source for source, _ in test]


def outputs(
    translator: Translator, sources: Sequence[tuple[int, str]], seed: int
) -> Iterator[tuple[TranslationTrace, int, random.Random]]:
    """For each numbered sentence an output token, chosen at random among those that the source makes likelier."""
    for number, text in sources:
        if not SHORTEST <= len(text.split()) <= LONGEST or len(translator.parts(text)) != 1:
            continue
        trace = translator.inspect(text, beam=1)
        if len(trace.source.words) != len(text.split()):
            continue
        chance = random.Random(f"{seed} {number}")
        positions = list(range(len(trace.ids) - trace.finished))
        chance.shuffle(positions)
        for position in positions:
            (nothing,) = probabilities(translator, trace, position, [()])
            if trace.probabilities[position] - nothing >= MATTERS:
                yield trace, position, chance
                break


def ranked(
    translator: Translator, trace: TranslationTrace, position: int, chance: random.Random
) -> dict[str, list[list[int]]]:
    """The words of the source in the order of each method, the most important first; random has several orders."""
    words = range(len(trace.source.words))
    values: dict[str, Sequence[float]] = {
        method: trace.attribution_of(Choice(method=method, position=position)).values[0].tolist()
        for method in methods_of(translator.model)
    }
    if trace.of_kind(CROSS):
        weights = trace.token_matrix()[position]
        values[ATTENTION] = [
            float(sum(weight for weight, own in zip(weights, trace.source.word_of) if own == word)) for word in words
        ]
        values[BACKWARDS] = [-value for value in values[ATTENTION]]
    orders = {method: [sorted(words, key=lambda word: -row[word])] for method, row in values.items()}
    return {
        **orders,
        RANDOM: [chance.sample(words, len(words)) for _ in range(DRAWS)],
        CONTROL: [chance.sample(words, len(words)) for _ in range(DRAWS)],
    }


def curves(
    translator: Translator, trace: TranslationTrace, position: int, orders: dict[str, list[list[int]]]
) -> Curves:
    """The probability of the output with 0, 1, 2, ... words removed, and put back, in each order."""
    count = len(trace.source.words)
    removed = [frozenset(order[k:]) for several in orders.values() for order in several for k in range(count + 1)]
    kept = [frozenset(order[:k]) for several in orders.values() for order in several for k in range(count + 1)]
    subsets = list(dict.fromkeys([*removed, *kept]))
    known = dict(zip(subsets, probabilities(translator, trace, position, subsets)))
    found = {}
    for method, several in orders.items():
        deletion = [[known[frozenset(order[k:])] for k in range(count + 1)] for order in several]
        insertion = [[known[frozenset(order[:k])] for k in range(count + 1)] for order in several]
        found[method] = ([_mean(column) for column in zip(*deletion)], [_mean(column) for column in zip(*insertion)])
    return found


@torch.inference_mode()
def probabilities(
    translator: Translator, trace: TranslationTrace, position: int, subsets: Sequence[Sequence[int] | frozenset[int]]
) -> list[float]:
    """The probability of one output after the same words written before, if the source has only these words."""
    ids = translator.encode(trace.source.text)
    fed = torch.tensor([[BEGIN, *trace.ids[:position]]], device=translator.device)
    found: list[float] = []
    for first in range(0, len(subsets), 64):
        rows = [
            [*(token for token, word in zip(ids, trace.source.word_of) if word in kept), END]
            for kept in subsets[first : first + 64]
        ]
        source, mask = (tensor.to(translator.device) for tensor in pad(rows))
        logits = translator.model(source, mask, fed.expand(len(rows), -1))[:, -1].float()
        found += logits.softmax(-1)[:, trace.ids[position]].tolist()
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _mean_curve(several: Sequence[Sequence[float]]) -> list[float | None]:
    """The mean of curves of different lengths, at SHARES of the words."""

    def at(curve: Sequence[float], share: float) -> float:
        place = share * (len(curve) - 1)
        low = min(int(place), len(curve) - 2)
        return curve[low] + (place - low) * (curve[low + 1] - curve[low])

    return [rounded(_mean([at(curve, share) for curve in several])) for share in SHARES]


def _methods(numbers: Numbers) -> list[str]:
    """All methods and orders, those of attribution first."""
    every = dict.fromkeys(method for one in numbers["found"].values() for method in one)
    return [*(method for method in every if method not in OTHER_ORDERS), *(m for m in OTHER_ORDERS if m in every)]
