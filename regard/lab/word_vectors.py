"""GloVe: do vectors learnt only from counts know which words belong together?

Three tests. Of words whose kinds are known, is the nearest neighbour of the same kind? Does the word nearest to
b - a + c solve the analogy? Do cosines correlate with pointwise mutual information? The control has the same words and
line lengths in random order, where only the frequency of words can be learnt.

The tiny and small sizes use a synthetic language (_made_language.py), the full one Europarl and Tatoeba.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from regard.data.corpus.reading import read_lines
from regard.data.vectors.counts import CoOccurrence, Text, co_occurrence, numbered
from regard.data.vectors.glove import learn
from regard.data.vectors.near import Vectors
from regard.lab import _made_language
from regard.lab._drawing import PALETTE, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict, one_thread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["WordVectors"]


@dataclass(frozen=True)
class Recipe:
    sentences: int
    """Synthetic sentences, or lines of Europarl; Tatoeba is used completely."""
    width: int
    epochs: int
    window: int
    min_count: int = 1
    real: bool = False


SIZES = {
    "tiny": Recipe(sentences=3000, width=20, epochs=15, window=5),
    "small": Recipe(sentences=30_000, width=50, epochs=50, window=5),
    "full": Recipe(sentences=250_000, width=100, epochs=12, window=8, min_count=10, real=True),
}
EUROPARL, TATOEBA = "europarl_en_de_fr/train.en.xz", "tatoeba_en_fr/fra-eng.tsv.gz#1"
KINDS: dict[str, tuple[str, ...]] = {
    "countries": (
        "france", "germany", "italy", "spain", "portugal", "greece", "austria", "belgium", "ireland", "sweden",
        "finland", "denmark", "poland", "hungary",
    ),
    "languages and peoples": (
        "french", "german", "italian", "spanish", "portuguese", "greek", "austrian", "belgian", "irish", "swedish",
        "finnish", "danish", "polish", "hungarian",
    ),
    "months": ("january", "february", "april", "june", "july", "august", "september", "october", "november"),
    "days": ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    "numbers": ("two", "three", "four", "five", "six", "seven", "eight", "ten"),
    "family": ("mother", "father", "brother", "sister", "son", "daughter", "wife", "husband"),
    "colours": ("red", "white", "green", "blue", "black", "yellow", "brown"),
}  # fmt: skip
PAIRS: tuple[tuple[tuple[str, str], ...], ...] = (
    tuple(zip(KINDS["countries"], KINDS["languages and peoples"])),
    (("he", "she"), ("his", "her"), ("father", "mother"), ("brother", "sister"), ("son", "daughter"), ("man", "woman")),
    (("country", "countries"), ("state", "states"), ("child", "children"), ("woman", "women"), ("right", "rights")),
)
SHOWN = {
    False: ("queen", "goat", "paris", "violin"),
    True: ("france", "monday", "five", "mother", "green", "parliament"),
}
OFTEN = 10.0
"""Least count of a pair for a reliable mutual information."""
TOGETHER, BY_CHANCE = 0.8, 0.4
ANALOGIES, NO_ANALOGIES = 0.2, 0.05


class WordVectors(Experiment):
    claim = "Vectors learnt from co-occurrence counts alone put words of a kind together and answer analogies."
    lecture = "F6"
    threshold = (
        "Of words whose kinds are known, at least 80 % have one of their own kind as the nearest, and at least 20 % of "
        "the analogies have the right word nearest of the whole vocabulary; learnt from the same words in random order "
        "(the control) at most 40 % and 5 % do."
    )
    data = ("europarl_en_de_fr", "tatoeba_en_fr")
    code = (
        "regard.data.vectors.counts.co_occurrence",
        "regard.data.vectors.glove.GloVe.step",
        "regard.data.vectors.near.Vectors.analogy",
    )

    def run(self, size: str, setting: Setting) -> Numbers:
        recipe = SIZES[size]
        with one_thread():
            text = numbered(lines(recipe, setting), min_count=recipe.min_count, size=20_000)
            kinds, questions = known(recipe, text)
            numbers: Numbers = {
                "real": recipe.real,
                "words": int((text.ids >= 0).sum()),
                "vocabulary": len(text.words),
                "kinds": kinds,
                "questions": len(questions),
            }
            for name, read in (("text", text), ("shuffled", shuffled(text, setting.seed))):
                numbers[name] = measured(read, kinds, questions, recipe, setting, name)
        return numbers

    def table(self, numbers: Numbers) -> list[list[str]]:
        text, control = numbers["text"], numbers["shuffled"]
        rows = [["", "text", "shuffled"]]
        for key, title in TITLES.items():
            rows.append([title, *(f"{numbers[name][key]:{FORMATS.get(key, '.1%')}}" for name in ("text", "shuffled"))])
        for word in text["near"]:
            rows.append([f"near {word}", *(" ".join(found["near"][word]) for found in (text, control))])
        return rows

    def verdict(self, numbers: Numbers) -> Verdict:
        text, control = numbers["text"], numbers["shuffled"]
        held = text["together"] >= TOGETHER and text["analogies"] >= ANALOGIES
        flips = control["together"] <= BY_CHANCE and control["analogies"] <= NO_ANALOGIES
        return Verdict(
            held and flips,
            f"{text['together']:.0%} of the words have one of their kind as the nearest and {text['analogies']:.0%} of "
            f"{numbers['questions']} analogies are right; with the words in random order {control['together']:.0%} and "
            f"{control['analogies']:.0%}",
            but=f"{1 - text['analogies']:.0%} of the analogies are answered wrong" if text["analogies"] < 0.5 else "",
        )

    def remark(self, numbers: Numbers) -> str:
        where = "Europarl and Tatoeba" if numbers["real"] else "a language the package makes"
        return (
            f"Read were {numbers['words']:,} words of {where}, {numbers['vocabulary']:,} different ones. Two words of "
            f"a kind have a cosine of {numbers['text']['same']:.2f} on average, of two kinds "
            f"{numbers['text']['other']:.2f}."
        )

    def figure(self, numbers: Numbers) -> Figure:
        figure, (plane, spread) = panels(columns=2, width=6.0, height=4.6)
        colours = dict(zip(numbers["kinds"], [*PALETTE, "#7a7490", "#9b2f6f", "#4a6b1d"]))
        for kind, points in numbers["text"]["plane"].items():
            xs, ys = zip(*points.values())
            plane.plot(xs, ys, "o", color=colours[kind], markersize=3, label=kind)
            for word, (x, y) in points.items():
                plane.annotate(word, (x, y), xytext=(2, 2), textcoords="offset points", fontsize=7, color=colours[kind])
        plane.set(title="The vectors on a plane (their two main directions)")
        plane.set_xticks([])
        plane.set_yticks([])
        plane.legend(loc="upper left", bbox_to_anchor=(0, -0.02), ncols=4, fontsize=8, handletextpad=0)
        _draw_spread(spread, numbers)
        return figure


# ------------------------------------------------------------------------------------------------------- measuring


def lines(recipe: Recipe, setting: Setting) -> Iterable[str]:
    if not recipe.real:
        return _made_language.sentences(recipe.sentences, np.random.default_rng(setting.seed))
    setting.note("reading Europarl and Tatoeba")
    return chain(islice(read_lines(setting.data / EUROPARL), recipe.sentences), _distinct(setting))


def _distinct(setting: Setting) -> Iterator[str]:
    """Tatoeba's English sentences without repetitions, which are adjacent."""
    before = ""
    for line in read_lines(f"{setting.data}/{TATOEBA}"):
        if line != before:
            yield line
        before = line


def known(recipe: Recipe, text: Text) -> tuple[dict[str, list[str]], list[tuple[str, str, str, str]]]:
    """Words with known kinds, and analogies with known answers, as far as they are in the text."""
    there = set(text.words)
    kinds: Mapping[str, tuple[str, ...]] = KINDS if recipe.real else _made_language.KINDS
    if recipe.real:
        asked = [
            (a, b, c, d) for pairs in PAIRS for one in pairs for other in pairs if one != other
            for a, b, c, d in [(*one, *other)]
        ]  # fmt: skip
    else:
        asked = _made_language.analogies()
    kept = {kind: [word for word in words if word in there] for kind, words in kinds.items()}
    return kept, [question for question in asked if there.issuperset(question)]


def shuffled(text: Text, seed: int) -> Text:
    """The same words and line lengths in random order."""
    return replace(text, ids=np.random.default_rng([seed, 1]).permutation(text.ids))


def measured(
    text: Text,
    kinds: Mapping[str, list[str]],
    questions: list[tuple[str, str, str, str]],
    recipe: Recipe,
    setting: Setting,
    name: str,
) -> Numbers:
    counts = co_occurrence(text, recipe.window)
    losses: list[float] = []
    vectors = learn(
        counts, recipe.width, recipe.epochs, seed=setting.seed, device=setting.device, losses=losses,
        progress=lambda done, total, what: setting.progress(done, total, f"{what}, {name}"),
    )  # fmt: skip
    listed = [word for words in kinds.values() for word in words]
    kind_of = np.array([number for number, words in enumerate(kinds.values()) for _ in words])
    directions = vectors.directions[[vectors.indices[word] for word in listed]]
    cosines = directions @ directions.T
    same = kind_of[:, None] == kind_of[None]
    apart = ~np.eye(len(listed), dtype=bool)
    nearest = np.where(apart, cosines, -np.inf).argmax(1)
    right = [vectors.analogy(a, b, c, 1)[0][0] == d for a, b, c, d in questions]
    return {
        "pairs": len(counts),
        "losses": [float(f"{loss:.4g}") for loss in losses],
        "together": round(float((kind_of[nearest] == kind_of).mean()), 4),
        "analogies": round(sum(right) / max(1, len(right)), 4),
        "same": round(float(cosines[same & apart].mean()), 4),
        "other": round(float(cosines[~same].mean()), 4),
        "agreement": round(agreement(counts, vectors), 4),
        "near": {word: [w for w, _ in vectors.near(word, 3)] for word in SHOWN[recipe.real] if word in vectors},
        "histogram": {"same": _histogram(cosines[same & apart]), "other": _histogram(cosines[~same])},
        "plane": on_a_plane(directions, kinds),
    }


def agreement(counts: CoOccurrence, vectors: Vectors) -> float:
    """The correlation of cosines with pointwise mutual information, log X_ij X / (X_i X_j), of frequent pairs."""
    sums = np.bincount(counts.rows, counts.values, minlength=len(counts.words))
    often = (counts.values >= OFTEN) & (counts.rows < counts.columns)
    if often.sum() < 1000:  # all pairs of a small text
        often = counts.rows < counts.columns
    rows, columns, values = (side[often][:200_000] for side in (counts.rows, counts.columns, counts.values))
    information = np.log(values * sums.sum() / (sums[rows] * sums[columns]))
    found = np.einsum("nd,nd->n", vectors.directions[rows], vectors.directions[columns])
    return float(np.corrcoef(information, found)[0, 1])


def on_a_plane(directions: np.ndarray, kinds: Mapping[str, list[str]]) -> dict[str, dict[str, list[float]]]:
    """The first two principal components of each word."""
    centred = directions - directions.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2] * np.sign(axes[:2, :1] + 1e-30)  # fixes the arbitrary sign of a component
    places = iter((centred @ axes.T).tolist())
    return {kind: {word: [round(x, 4) for x in next(places)] for word in words} for kind, words in kinds.items()}


def _histogram(cosines: np.ndarray) -> list[float]:
    """A histogram with 40 bins from -1 to 1."""
    counts, _ = np.histogram(cosines.clip(-1, 1), bins=40, range=(-1, 1))
    return [round(float(count), 5) for count in counts / max(1, counts.sum())]


# --------------------------------------------------------------------------------------------------------- showing

TITLES = {
    "together": "nearest is of the same kind",
    "analogies": "analogies right",
    "same": "mean cosine, same kind",
    "other": "mean cosine, other kinds",
    "agreement": "correlation with mutual information",
    "pairs": "pairs of words counted",
}
FORMATS = {"same": ".3f", "other": ".3f", "agreement": ".3f", "pairs": ",d"}


def _draw_spread(axes: Axes, numbers: Numbers) -> None:
    steps = [-1 + (i + 0.5) / 20 for i in range(40)]
    for name, style in (("text", "-"), ("shuffled", ":")):
        for which, colour in (("same", PALETTE[0]), ("other", PALETTE[1])):
            title = f"{'same kind' if which == 'same' else 'other kinds'}, {name}"
            axes.plot(steps, numbers[name]["histogram"][which], style, color=colour, label=title)
    axes.set(title="Cosines of two words", xlabel="cosine", ylabel="share of pairs")
    axes.legend(loc="upper left", fontsize=8)
