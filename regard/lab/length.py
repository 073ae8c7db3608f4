"""F9: the effect of sentence length on translation, with and without attention (Bahdanau et al. 2015, figure 2).

Four models of about the same size train on the same text with the same tokenizer for the same number of tokens, each at
its best learning rate. The full size uses Europarl, the others a synthetic language.
"""

from __future__ import annotations

import bisect
import random
import tempfile
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from regard.assemble import build_model, resolve_model
from regard.config import Recipe, read_recipe
from regard.data.corpus import read_pairs
from regard.evaluation.translation import corpus_scores
from regard.lab._drawing import PALETTE, label_ends, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict, one_thread
from regard.lab._translators import (
    Attempt,
    Corpus,
    Pair,
    by_length,
    length_ranges,
    made_up,
    recipe_for,
    train_all,
    written,
)
from regard.loading import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Length"]

MODELS = {
    "no attention": "road-none",
    "Bahdanau": "road-bahdanau",
    "Luong": "road-luong",
    "Transformer": "road-transformer",
}
"""Their recipes; widths are scaled to the target number of parameters."""
WITHOUT = "no attention"
MOST_LOST, LEAST_LOST = 0.2, 0.4
"""Ratios of BLEU in the last to that in the second range of lengths (the first is too short to say much)."""


@dataclass(frozen=True)
class Size:
    """Sizes of the experiment."""

    parameters: int
    vocabulary: int
    pairs: int
    lengths: tuple[int, ...]
    """The longest source, in words, of each range."""
    tests: int
    """Test pairs in each range."""
    steps: int
    tuning: int
    """Steps of the short runs that choose a learning rate."""
    rates: tuple[float, ...]
    batch_tokens: int
    dropout: float = 0.1
    beam: int = 4
    length_penalty: float = 1.0
    """With less, uncertain models end long sentences early, and the search would be measured."""


SIZES = {
    "tiny": Size(12_000, 20, 300, (3, 6, 9), 20, 12, 4, (3e-3, 1e-2), 200, beam=1),
    "small": Size(121_000, 52, 4000, (4, 7, 10, 13, 16), 60, 600, 50, (3e-3, 1e-2), 900, 0.0, beam=1),
    "full": Size(7_600_000, 8000, 200_000, (10, 20, 30, 40, 60), 400, 2500, 500, (1e-3, 2e-3, 4e-3, 8e-3), 12_000, 0.2),
}


class Length(Experiment):
    claim = "Without attention, quality falls with sentence length; with it, it does not."
    lecture = "F9"
    threshold = (
        "Held if, from the second range of lengths to the last, the model without attention loses at least 40 % of its "
        "BLEU and each model with attention at most 20 %."
    )
    data = ("europarl_en_de_fr",)
    code = (
        "regard.decoder.recurrent.RecurrentDecoder.advance",
        "regard.decoder.attentional.AttentionalDecoder.advance",
        "regard.layers.attention.additive.Additive.scores",
        "regard.layers.attention.multiplicative.Multiplicative.scores",
    )
    timed = ("seconds",)

    def run(self, size: str, setting: Setting) -> Numbers:
        wanted = SIZES[size]
        with (
            one_thread() if setting.device.type == "cpu" else nullcontext(),
            tempfile.TemporaryDirectory(prefix="regard-length-") as folder,
        ):
            place = Path(folder)
            corpus = Corpus(*(_europarl if size == "full" else _made_up)(wanted, setting))
            corpus.write(place)
            recipes = {name: _recipe(name, wanted, place, setting) for name in MODELS}
            tries = [Attempt(name, recipes[name], wanted.tuning, rate) for name in MODELS for rate in wanted.rates]
            losses: dict[str, dict[float, float]] = {name: {} for name in MODELS}
            for tried, found in zip(tries, train_all(tries, corpus, place, setting)):
                losses[tried.name][tried.rate] = found["loss"]
            best = [
                Attempt(name, recipes[name], wanted.steps, min(losses[name], key=lambda rate: losses[name][rate]))
                for name in MODELS
            ]
            done = train_all(best, corpus, place, setting)
            models = {}
            for number, (which, result) in enumerate(zip(best, done)):
                setting.progress(number, len(best), "translating the test sentences")
                models[which.name] = {
                    "recipe": MODELS[which.name],
                    "learning_rate": which.rate,
                    "validation_losses": {f"{rate:g}": loss for rate, loss in losses[which.name].items()},
                    **result,
                    **_scores(which.folder(place), corpus.test, wanted, setting),
                }
            setting.progress(len(best), len(best), "translating the test sentences")
        return {"size": asdict(wanted) | {"lengths": list(wanted.lengths)}, "corpus": corpus.name, "models": models}

    def table(self, numbers: Numbers) -> list[list[str]]:
        ranges = length_ranges(numbers["size"]["lengths"])
        head = ["", "parameters", "learning rate", *(f"{low}-{high} words" for low, high in ranges), "all", "lost"]
        rows = [
            [
                name,
                f"{found['parameters']:,}",
                f"{found['learning_rate']:g}",
                *(f"{bleu:.1f}" for bleu in found["bleu"]),
                f"{found['bleu_all']:.1f}",
                f"{_lost(found):.0%}",
            ]
            for name, found in numbers["models"].items()
        ]
        return [head, *rows]

    def verdict(self, numbers: Numbers) -> Verdict:
        lost = {name: _lost(found) for name, found in numbers["models"].items()}
        others = {name: share for name, share in lost.items() if name != WITHOUT}
        said = ", ".join(f"{name} {share:.0%}" for name, share in others.items())
        ranges = length_ranges(numbers["size"]["lengths"])
        held = lost[WITHOUT] >= LEAST_LOST and all(share <= MOST_LOST for share in others.values())
        from_to = f"from {ranges[1][0]}-{ranges[1][1]} to {ranges[-1][0]}-{ranges[-1][1]} words"
        return Verdict(held, f"{from_to} the model without attention loses {lost[WITHOUT]:.0%} of its BLEU, {said}")

    def remark(self, numbers: Numbers) -> str:
        if "length_penalty" in numbers["size"]:
            return ""
        return (
            "These translations were searched with a length penalty of 0.6, under which models that are unsure end "
            "long sentences early: a part of what is lost here is lost by the search. It has been 1.0 since."
        )

    def figure(self, numbers: Numbers) -> Figure:
        figure, (axes,) = panels(width=6.4, height=4.0)
        ranges = length_ranges(numbers["size"]["lengths"])
        labels = []
        for (name, found), colour in zip(numbers["models"].items(), (PALETTE[1], *PALETTE[2:4], PALETTE[0])):
            axes.plot(range(len(ranges)), found["bleu"], marker="o", color=colour)
            labels.append((found["bleu"][-1], name, colour))
        axes.set_xticks(range(len(ranges)), [f"{low}-{high}" for low, high in ranges])
        axes.set_xlabel("words in the source sentence")
        axes.set_ylabel("BLEU")
        axes.set_ylim(bottom=0)
        axes.set_title(f"Quality by length: {numbers['corpus']}")
        label_ends(axes, labels)
        return figure


def _lost(found: dict[str, Any]) -> float:
    first, last = found["bleu"][1], found["bleu"][-1]
    return 1 - last / first if first else 0.0


# The text.


def _europarl(wanted: Size, setting: Setting) -> tuple[str, list[Pair], list[Pair], list[list[Pair]]]:
    """The first lines for training; pairs of each length from the end for testing."""
    folder = setting.data / "europarl_en_de_fr"
    setting.note("reading Europarl")
    lines = list(read_pairs([str(folder / "train.fr.xz")], [str(folder / "train.en.xz")]))
    valid = list(read_pairs([str(folder / "valid.fr.gz")], [str(folder / "valid.en.gz")]))
    test = by_length(lines[wanted.pairs :][::-1], wanted.lengths, wanted.tests)
    return "Europarl, French to English", lines[: wanted.pairs], valid[:500], test


def _made_up(wanted: Size, setting: Setting) -> tuple[str, list[Pair], list[Pair], list[list[Pair]]]:
    chance = random.Random(setting.seed)
    pair = made_up(wanted.vocabulary, chance)
    longest = wanted.lengths[-1]
    made = [pair(chance.randint(1, longest)) for _ in range(wanted.pairs + 50)]
    test = [
        [pair(chance.randint(low, high)) for _ in range(wanted.tests)] for low, high in length_ranges(wanted.lengths)
    ]
    return "a made-up language", made[50:], made[:50], test


# The models.


def _recipe(name: str, wanted: Size, place: Path, setting: Setting) -> Recipe:
    tree = resolve_model({**read_recipe(MODELS[name]).model, "dropout": wanted.dropout})
    return recipe_for(
        _sized(tree, wanted),
        place,
        setting,
        vocabulary=wanted.vocabulary,
        batch_tokens=wanted.batch_tokens,
        beam=wanted.beam,
        longest=2 * wanted.lengths[-1] + 20,
    )


def _sized(tree: dict[str, Any], wanted: Size) -> dict[str, Any]:
    """The model with all widths scaled to come closest to the target number of parameters."""

    def scaled(tree: dict[str, Any], factor: float) -> dict[str, Any]:
        widths = ("width", "embedding", "feed_forward")
        return {
            key: scaled(value, factor)
            if isinstance(value, dict)
            else max(1, round(value * factor / 4)) * 4
            if key in widths and value
            else value
            for key, value in tree.items()
        }

    def parameters(part: int) -> int:
        return _parameters(scaled(tree, part / 256), wanted.vocabulary)

    enough = bisect.bisect_left(range(512), wanted.parameters, lo=1, key=parameters)
    return scaled(tree, min(enough, enough - 1, key=lambda part: abs(parameters(part) - wanted.parameters)) / 256)


def _parameters(tree: dict[str, Any], vocabulary: int) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build_model(tree, vocabulary).parameters())


def _scores(folder: Path, test: list[list[Pair]], wanted: Size, setting: Setting) -> dict[str, Any]:
    """BLEU in each range of lengths and over all."""
    translator = load(folder, device=str(setting.device))
    outputs = written(translator, test, wanted.length_penalty)
    references = [[target for _, target in pairs] for pairs in test]
    return {
        "parameters": sum(parameter.numel() for parameter in translator.model.parameters()),
        "bleu": [corpus_scores(*pair).bleu for pair in zip(outputs, references)],
        "length_ratio": [_words(a) / _words(b) for a, b in zip(outputs, references)],
        "bleu_all": corpus_scores(sum(outputs, []), sum(references, [])).bleu,
    }


def _words(texts: list[str]) -> int:
    return sum(len(text.split()) for text in texts)
