"""F9: what a sentence's length does to its translation, without attention and with it (Bahdanau et al. 2015, figure 2).

Four models of about the same size learn from the same text, cut by the same tokenizer, for the same number of tokens,
each at the learning rate that suits it best. The full size reads Europarl; the others read a language made here.
"""

from __future__ import annotations

import bisect
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from regard.assemble import build_model, load, resolve_model
from regard.config import Data, Decoding, Recipe, Training, read_recipe, to_toml
from regard.data.corpus import read_pairs
from regard.errors import UserError
from regard.evaluation.translation import corpus_scores
from regard.lab._drawing import PALETTE, label_ends, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict, one_thread
from regard.runs import train
from regard.training.progress import Quiet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Length"]

Pair = tuple[str, str]

MODELS = {
    "no attention": "road-none",
    "Bahdanau": "road-bahdanau",
    "Luong": "road-luong",
    "Transformer": "road-transformer",
}
"""Their recipes; each is made narrower or wider until it has the wanted number of parameters."""
WITHOUT = "no attention"
MOST_LOST, LEAST_LOST = 0.2, 0.4
"""Shares of BLEU, from the second range of lengths (the first is too short to say much) to the last."""


@dataclass(frozen=True)
class Size:
    """How much of everything."""

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
    """With less, models that are unsure end long sentences early, and what is measured is the search."""


SIZES = {
    "tiny": Size(12_000, 20, 300, (3, 6, 9), 20, 12, 4, (3e-3, 1e-2), 200, beam=1),
    "small": Size(150_000, 60, 4000, (4, 8, 12, 16, 20), 100, 600, 100, (3e-3, 1e-2), 1500, 0.0, beam=1),
    "full": Size(7_600_000, 8000, 200_000, (10, 20, 30, 40, 60), 400, 2500, 500, (1e-3, 2e-3, 4e-3, 8e-3), 12_000, 0.2),
}


class Length(Experiment):
    claim = "Without attention, quality falls with sentence length; with it, it does not."
    lecture = "F9"
    threshold = (
        "Held if, from the second range of lengths to the last, the model without attention loses at least 40 % of its "
        "BLEU and each model with attention at most 20 %."
    )
    code = (
        "regard.decoder.recurrent.RecurrentDecoder.advance",
        "regard.decoder.attentional.AttentionalDecoder.advance",
        "regard.layers.attention.additive.Additive.recall",
        "regard.layers.attention.multiplicative.Multiplicative.recall",
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
            tries = [(name, rate, wanted.tuning) for name in MODELS for rate in wanted.rates]
            tuned = _train_all(tries, recipes, corpus, place, setting)
            losses = {
                name: {rate: tuned[name, rate, wanted.tuning]["loss"] for rate in wanted.rates} for name in MODELS
            }
            best = {
                name: (name, min(losses[name], key=lambda rate: losses[name][rate]), wanted.steps) for name in MODELS
            }
            done = _train_all(list(best.values()), recipes, corpus, place, setting)
            models = {}
            for number, (name, which) in enumerate(best.items()):
                setting.progress(number, len(best), "translating the test sentences")
                models[name] = {
                    "recipe": MODELS[name],
                    "learning_rate": which[1],
                    "validation_losses": {f"{rate:g}": loss for rate, loss in losses[name].items()},
                    **done[which],
                    **_scores(_folder(place, which), corpus.test, wanted, setting),
                }
            setting.progress(len(best), len(best), "translating the test sentences")
        return {"size": asdict(wanted) | {"lengths": list(wanted.lengths)}, "corpus": corpus.name, "models": models}

    def table(self, numbers: Numbers) -> list[list[str]]:
        ranges = _ranges(numbers["size"]["lengths"])
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
        ranges = _ranges(numbers["size"]["lengths"])
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
        ranges = _ranges(numbers["size"]["lengths"])
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


def _ranges(lengths: Sequence[int]) -> list[tuple[int, int]]:
    return [(low + 1, high) for low, high in zip([0, *lengths], lengths)]


# The text.


@dataclass
class Corpus:
    name: str
    train: list[Pair]
    valid: list[Pair]
    test: list[list[Pair]]
    """By range of length."""

    def write(self, place: Path) -> None:
        for name, pairs in (("train", self.train), ("valid", self.valid)):
            for side, ending in enumerate(("source", "target")):
                text = "".join(f"{pair[side]}\n" for pair in pairs)
                (place / f"{name}.{ending}").write_text(text, encoding="utf-8")


def _europarl(wanted: Size, setting: Setting) -> tuple[str, list[Pair], list[Pair], list[list[Pair]]]:
    """The first lines to learn from; the last ones, so many of each length, to test on."""
    folder = setting.data / "europarl_en_de_fr"
    if not folder.is_dir():
        raise UserError(f"the full size reads Europarl, but {folder} is not there; say where with --data FOLDER")
    setting.note("reading Europarl")
    lines = list(read_pairs([str(folder / "train.fr.xz")], [str(folder / "train.en.xz")]))
    valid = list(read_pairs([str(folder / "valid.fr.gz")], [str(folder / "valid.en.gz")]))
    test = _by_length(lines[wanted.pairs :][::-1], wanted)
    return "Europarl, French to English", lines[: wanted.pairs], valid[:500], test


def _by_length(pairs: Sequence[Pair], wanted: Size) -> list[list[Pair]]:
    found: list[list[Pair]] = []
    for low, high in _ranges(wanted.lengths):
        found.append([pair for pair in pairs if low <= len(pair[0].split()) <= high][: wanted.tests])
        if len(found[-1]) < wanted.tests:
            raise UserError(
                f"only {len(found[-1])} sentences of {low} to {high} words to test on, {wanted.tests} wanted"
            )
    return found


def _made_up(wanted: Size, setting: Setting) -> tuple[str, list[Pair], list[Pair], list[list[Pair]]]:
    """A language of things and their qualities: word for word, but a quality comes after its thing, not before."""
    chance = random.Random(setting.seed)
    words = (wanted.vocabulary - 4) // 4  # two kinds of words in two languages, after the four marks of a tokenizer
    things = {f"ka{i}": f"do{i}" for i in range(words)}
    qualities = {f"ri{i}": f"ma{i}" for i in range(words)}

    def pair(length: int) -> Pair:
        source: list[str] = []
        target: list[str] = []
        while len(source) < length:
            thing = chance.choice(list(things))
            if length - len(source) > 1 and chance.random() < 0.5:
                quality = chance.choice(list(qualities))
                source += [thing, quality]
                target += [qualities[quality], things[thing]]
            else:
                source.append(thing)
                target.append(things[thing])
        return " ".join(source), " ".join(target)

    longest = wanted.lengths[-1]
    made = [pair(chance.randint(1, longest)) for _ in range(wanted.pairs + 50)]
    test = [[pair(chance.randint(low, high)) for _ in range(wanted.tests)] for low, high in _ranges(wanted.lengths)]
    return "a made-up language", made[50:], made[:50], test


# The models.


def _recipe(name: str, wanted: Size, place: Path, setting: Setting) -> Recipe:
    given = read_recipe(MODELS[name])
    tree = resolve_model({**given.model, "dropout": wanted.dropout})
    return Recipe(
        seed=setting.seed,
        data=Data(
            source=[str(place / "train.source")],
            target=[str(place / "train.target")],
            valid_source=[str(place / "valid.source")],
            valid_target=[str(place / "valid.target")],
            drop_duplicates=False,
            drop_wrong_script=False,
        ),
        tokenizer={"kind": "subword", "size": wanted.vocabulary} if wanted.vocabulary > 500 else {"kind": "word"},
        model=_sized(tree, wanted),
        training=Training(
            batch_tokens=wanted.batch_tokens,
            schedule="cosine",
            metric="loss",
            average=1,
            keep=1,
            device=str(setting.device),
        ),
        decoding=Decoding(beam=wanted.beam, max_length=2 * wanted.lengths[-1] + 20),
    )


def _sized(tree: dict[str, Any], wanted: Size) -> dict[str, Any]:
    """The model whose widths are all multiplied so that it has as nearly as possible the wanted parameters."""

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


# Training: in this process, or several `regard train` at once.

Try = tuple[str, float, int]
"""A model's name, a learning rate and a number of steps."""


def _folder(place: Path, which: Try) -> Path:
    name, rate, steps = which
    return place / f"{MODELS[name]}-{steps}-{rate:g}"


def _train_all(
    tries: list[Try], recipes: dict[str, Recipe], corpus: Corpus, place: Path, setting: Setting
) -> dict[Try, dict[str, float]]:
    """The validation loss that each run reached, and how long it took."""

    def one(which: Try) -> dict[str, float]:
        started = time.monotonic()
        _train(which, recipes[which[0]], place, setting)
        seconds = time.monotonic() - started
        loss = load(_folder(place, which), device=str(setting.device)).loss(corpus.valid)
        name, rate, steps = which
        setting.note(f"{name}, learning rate {rate:g}, {steps} steps: validation loss {loss:.3f}, {seconds:.0f} s")
        return {"loss": loss, "seconds": seconds}

    def several(rest: list[Try]) -> Iterator[tuple[Try, dict[str, float]]]:
        with ThreadPoolExecutor(setting.jobs) as pool:
            for number, result in enumerate(zip(rest, pool.map(one, rest)), 1):
                if setting.jobs > 1:  # one at a time, each shows its own steps
                    setting.progress(number, len(rest), f"{len(rest)} runs, {setting.jobs} at once")
                yield result

    tokenizer = place / "tokenizer"
    found = {}
    if not tokenizer.exists():  # the first run learns it, the others take it over
        found[tries[0]] = one(tries[0])
        shutil.copytree(_folder(place, tries[0]) / "codec", tokenizer)
    rest = [which for which in tries if which not in found]
    return found | dict(several(rest))


def _train(which: Try, recipe: Recipe, place: Path, setting: Setting) -> None:
    name, rate, steps = which
    training = replace(recipe.training, steps=steps, learning_rate=rate, warmup=max(1, steps // 10))
    settled = replace(recipe, training=replace(training, validate_every=steps, save_every=steps))
    if (place / "tokenizer").exists():
        settled.tokenizer = {"kind": recipe.tokenizer["kind"], "path": str(place / "tokenizer")}
    folder = _folder(place, which)
    if setting.jobs == 1:
        train(settled, folder=folder, report=_Progress(setting, f"{name}, learning rate {rate:g}"))
        return
    file = place / f"{folder.name}.toml"
    file.write_text(to_toml(settled), encoding="utf-8")
    command = [sys.executable, "-m", "regard", "train", str(file), "--out", str(folder), "--quiet"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise UserError(f"training {name} failed: {done.stderr.strip()[-500:]}")


class _Progress(Quiet):
    """Passes a run's steps on to whoever waits for the experiment."""

    def __init__(self, setting: Setting, what: str):
        self.setting, self.what, self.steps = setting, what, 0

    def start(self, step: int, steps: int) -> None:
        self.steps = steps

    def advance(self, step: int) -> None:
        self.setting.progress(step, self.steps, self.what)


def _scores(folder: Path, test: list[list[Pair]], wanted: Size, setting: Setting) -> dict[str, Any]:
    """BLEU in each range of lengths and over all. Long sentences are translated whole, however the model was meant."""
    translator = load(folder, device=str(setting.device))
    parameters = sum(parameter.numel() for parameter in translator.model.parameters())
    flat = [pair for pairs in test for pair in pairs]
    ids = [translator.encode(source) for source, _ in flat]
    longest = translator.recipe.decoding.max_length
    found = translator.search(ids, beam=wanted.beam, length_penalty=wanted.length_penalty, max_length=longest)
    outputs = iter([translator.tokenizer.decode(hypotheses[0].ids).strip() for hypotheses in found])
    written = [[next(outputs) for _ in pairs] for pairs in test]
    references = [[target for _, target in pairs] for pairs in test]
    return {
        "parameters": parameters,
        "bleu": [corpus_scores(*pair).bleu for pair in zip(written, references)],
        "length_ratio": [_words(a) / _words(b) for a, b in zip(written, references)],
        "bleu_all": corpus_scores(sum(written, []), sum(references, [])).bleu,
    }


def _words(texts: list[str]) -> int:
    return sum(len(text.split()) for text in texts)
