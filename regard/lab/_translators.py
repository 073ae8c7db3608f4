"""Translators that experiments train: corpora, recipes, runs and translations.

Runs happen in this process or as parallel `regard train` processes, with the same numbers.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.child_process import child_environment, python_command
from regard.config import Data, Decoding, Recipe, Training, to_toml
from regard.errors import UserError
from regard.lab._experiment import Setting
from regard.loading import load
from regard.runs import train
from regard.training.listener import Quiet

if TYPE_CHECKING:
    from regard.task.translate import Translator

Pair = tuple[str, str]


# The text.


@dataclass
class Corpus:
    name: str
    train: list[Pair]
    valid: list[Pair]
    test: list[list[Pair]]
    """Test pairs by range of length."""

    def write(self, place: Path) -> None:
        for name, pairs in (("train", self.train), ("valid", self.valid)):
            for side, ending in enumerate(("source", "target")):
                text = "".join(f"{pair[side]}\n" for pair in pairs)
                (place / f"{name}.{ending}").write_text(text, encoding="utf-8")


def length_ranges(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """(shortest, longest) of each range, from the longest ones."""
    return [(low + 1, high) for low, high in zip([0, *lengths], lengths)]


def by_length(pairs: Sequence[Pair], lengths: Sequence[int], wanted: int) -> list[list[Pair]]:
    """`count` pairs for each range of source lengths in words; too few are refused."""
    found: list[list[Pair]] = []
    for low, high in length_ranges(lengths):
        found.append([pair for pair in pairs if low <= len(pair[0].split()) <= high][:wanted])
        if len(found[-1]) < wanted:
            raise UserError(f"only {len(found[-1])} sentences of {low} to {high} words to test on, {wanted} wanted")
    return found


def made_up(vocabulary: int, chance: random.Random) -> Callable[[int], Pair]:
    """A synthetic language pair of nouns and adjectives, translated word for word with adjectives after their noun.

    Returns a function that makes a pair with a given number of words.
    """
    words = (vocabulary - 4) // 4  # two kinds of words in two languages, after the four special tokens
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

    return pair


# Recipes and runs.


@dataclass(frozen=True)
class Attempt:
    """A model to train, with steps and learning rate."""

    name: str
    recipe: Recipe
    steps: int
    rate: float

    def folder(self, place: Path) -> Path:
        return place / f"{self.name.replace(' ', '-')}-{self.steps}-{self.rate:g}"

    def __str__(self) -> str:
        return f"{self.name}, learning rate {self.rate:g}"


def recipe_for(
    model: dict[str, Any],
    place: Path,
    setting: Setting,
    *,
    vocabulary: int,
    batch_tokens: int,
    beam: int,
    longest: int,
    seed: int | None = None,
) -> Recipe:
    """The recipe for the corpus in `place`; translations have at most `longest` tokens."""
    return Recipe(
        seed=setting.seed if seed is None else seed,
        data=Data(
            source=[str(place / "train.source")],
            target=[str(place / "train.target")],
            valid_source=[str(place / "valid.source")],
            valid_target=[str(place / "valid.target")],
            drop_duplicates=False,
            drop_wrong_script=False,
        ),
        tokenizer={"kind": "subword", "size": vocabulary} if vocabulary > 500 else {"kind": "word"},
        model=model,
        training=Training(
            batch_tokens=batch_tokens,
            schedule="cosine",
            metric="loss",
            average=1,
            keep=1,
            device=str(setting.device),
        ),
        decoding=Decoding(beam=beam, max_length=longest),
    )


def train_all(attempts: Sequence[Attempt], corpus: Corpus, place: Path, setting: Setting) -> list[dict[str, float]]:
    """The validation loss of each run, and its time."""

    def one(which: Attempt) -> dict[str, float]:
        started = time.monotonic()
        _train(which, place, setting)
        seconds = time.monotonic() - started
        loss = load(which.folder(place), device=str(setting.device)).loss(corpus.valid)
        setting.note(f"{which}, {which.steps} steps: validation loss {loss:.3f}, {seconds:.0f} s")
        return {"loss": loss, "seconds": seconds}

    def several(rest: Sequence[Attempt]) -> Iterator[dict[str, float]]:
        with ThreadPoolExecutor(setting.jobs) as pool:
            for number, result in enumerate(pool.map(one, rest), 1):
                if setting.jobs > 1:  # a single run reports its own steps
                    setting.progress(number, len(rest), f"{len(rest)} runs, {setting.jobs} at once")
                yield result

    tokenizer = place / "tokenizer"
    first = []
    if not tokenizer.exists():  # trained by the first run, reused by the others
        first = [one(attempts[0])]
        shutil.copytree(attempts[0].folder(place) / "codec", tokenizer)
    return [*first, *several(attempts[len(first) :])]


def _train(which: Attempt, place: Path, setting: Setting) -> None:
    recipe, steps = which.recipe, which.steps
    training = replace(recipe.training, steps=steps, learning_rate=which.rate, warmup=max(1, steps // 10))
    resolved = replace(recipe, training=replace(training, validate_every=steps, save_every=steps))
    if (place / "tokenizer").exists():
        resolved.tokenizer = {"kind": recipe.tokenizer["kind"], "path": str(place / "tokenizer")}
    folder = which.folder(place)
    if setting.jobs == 1:
        train(resolved, folder=folder, report=_Progress(setting, str(which)))
        return
    file = place / f"{folder.name}.toml"
    file.write_text(to_toml(resolved), encoding="utf-8")
    command = python_command("-m", "regard", "train", str(file), "--output", str(folder), "--quiet")
    done = subprocess.run(command, capture_output=True, text=True, env=child_environment(OMP_NUM_THREADS="1"))
    if done.returncode:
        raise UserError(f"training {which.name} failed: {done.stderr.strip()[-500:]}")


class _Progress(Quiet):
    """Reports the steps of a run as progress of the experiment."""

    def __init__(self, setting: Setting, what: str):
        self.setting, self.what, self.steps = setting, what, 0

    def start(self, step: int, steps: int) -> None:
        self.steps = steps

    def advance(self, step: int) -> None:
        self.setting.progress(step, self.steps, self.what)


def written(translator: Translator, test: Sequence[Sequence[Pair]], length_penalty: float = 1.0) -> list[list[str]]:
    """Translations of the sources in each range. Long sentences are not split, whatever the model's limit."""
    settings = translator.recipe.decoding
    ids = [translator.encode(source) for pairs in test for source, _ in pairs]
    found = translator.search(ids, beam=settings.beam, length_penalty=length_penalty, max_length=settings.max_length)
    outputs = iter([translator.tokenizer.target.decode(hypotheses[0].ids).strip() for hypotheses in found])
    return [[next(outputs) for _ in pairs] for pairs in test]
