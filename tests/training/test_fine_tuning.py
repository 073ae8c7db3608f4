"""Defaults follow the length of a training; fine-tuning with default settings improves held-out text, says so, and warns when it does not."""

from __future__ import annotations

import random
from collections.abc import Generator
from pathlib import Path

import pytest

import regard
from regard.config import Recipe, Training, apply_overrides, read_recipe
from regard.training.defaults import warnings, with_defaults
from regard.training.listener import Quiet
from regard.types import Batch, BatchStream, Validation

PARTS = {"la vanne": "the valve", "le capot": "the hood", "la pompe": "the pump", "le joint": "the gasket"}
ACTIONS = {"Démontez": "Remove", "Graissez": "Lubricate", "Serrez": "Tighten", "Remplacez": "Replace"}
SHORT = ("training.steps=20", "training.batch_tokens=256", "training.device=cpu", "data.workers=0")


class Notes(Quiet):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.scores: dict[int, dict[str, float]] = {}

    def note(self, text: str) -> None:
        self.notes.append(text)

    def validated(self, step: int, validation: Validation) -> None:
        self.scores[step] = validation.scores


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences of a machine's manual: some to train on, others of the same kind to validate on."""
    folder = tmp_path_factory.mktemp("manual")
    pairs = [
        (f"{act} {part} toutes les {n} heures.", f"{ACTIONS[act]} {PARTS[part]} every {n} operating hours.")
        for act in ACTIONS
        for part in PARTS
        for n in (8, 24, 50)
    ]
    random.Random(1).shuffle(pairs)
    for name, some in (("train", pairs[:40]), ("valid", pairs[40:])):
        for side, language in enumerate(("fr", "en")):
            (folder / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in some))
    return folder


def tuned(manual: Path, place: Path, *more: str) -> tuple[regard.Run, Notes]:
    notes = Notes()
    valid = [f"data.valid_{side}=['{manual}/valid.{code}']" for side, code in (("source", "fr"), ("target", "en"))]
    files = {"source": manual / "train.fr", "target": manual / "train.en"}
    run = regard.train(None, "training.from=fr-en", *SHORT, *valid, *more, **files, folder=place, report=notes)
    return run, notes


@pytest.mark.slow
def test_defaults_of_fine_tuning_improve_held_out_text(manual: Path, tmp_path: Path) -> None:
    """With the defaults of a long training (1,000 steps of warm-up) the same 20 steps hardly change the model."""
    run, notes = tuned(manual, tmp_path / "new")
    before, after = notes.scores[0], run.scores
    long = ("training.warmup=1000", "training.learning_rate=1e-3")
    unchanged, complaints = tuned(manual, tmp_path / "old", *long)
    assert after["bleu"] > before["bleu"] + 25  # measured: 5.9 before, 52.7 after
    assert unchanged.scores["bleu"] < before["bleu"] + 20  # measured: 17.9
    assert any("before fine-tuning" in note and f"{after['bleu']:.4g} after" in note for note in notes.notes)
    assert not any("warning" in note for note in notes.notes)
    assert any("training.warmup=1000 is not shorter" in note for note in complaints.notes)


@pytest.mark.parametrize(
    "given, fine_tuning, warmup, rate",
    [
        ({}, False, 1000, 1e-3),
        ({"steps": 300}, False, 30, 1e-3),
        ({"steps": 300}, True, 30, 1e-4),
        ({"steps": 20000}, True, 100, 1e-4),
        ({"steps": 5}, False, 0, 1e-3),
        ({"steps": 300, "warmup": 1000, "learning_rate": 0.5}, True, 1000, 0.5),
        ({"steps": 300, "warmup": 0}, False, 0, 1e-3),
    ],
)
def test_automatic_values_follow_the_length_and_stated_ones_stay(given, fine_tuning, warmup, rate) -> None:
    found = with_defaults(Training(**given), fine_tuning)
    assert (found.warmup, found.learning_rate) == (warmup, rate)
    assert with_defaults(found) == found


class Epochs(BatchStream):
    """As much of a stream as the warnings ask for."""

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def batches_per_epoch(self) -> int:
        return self.batches

    def __iter__(self) -> Generator[Batch, None, None]:
        yield from ()

    def cursor(self) -> dict[str, int]:
        return {}

    def seek(self, cursor: dict[str, int]) -> None: ...


@pytest.mark.parametrize(
    "given, batches, said",
    [
        ({"steps": 300, "warmup": 1000}, 100, "training.warmup=1000 is not shorter than the training of 300 steps"),
        ({"steps": 20000, "warmup": 10}, 1, "20,000 passes over so little training data"),
        ({"steps": 20000, "warmup": 10, "patience": 5}, 1, ""),
        ({"steps": 20000, "warmup": 1000}, 100, ""),
        ({"steps": 20000, "warmup": 1000}, 0, ""),
    ],
)
def test_settings_that_waste_a_training_get_one_line(given, batches, said) -> None:
    found = warnings(Training(**given), Epochs(batches))
    assert [said in line for line in found] == ([True] if said else [])


def tiny(folder: Path, pairs: int, *more: str) -> Recipe:
    for side, text in (("fr", "le mot {} vaut {}\n"), ("en", "the word {} is worth {}\n")):
        (folder / f"tiny.{side}").write_text("".join(text.format(i % 9, i // 9) for i in range(pairs)))
    recipe = Recipe()
    recipe.data.root, recipe.data.source, recipe.data.target = str(folder), ["tiny.fr"], ["tiny.en"]
    small = ["tokenizer.kind=word", "model.width=16", "model.heads=2", "model.layers=1", "training.batch_tokens=300"]
    return apply_overrides(recipe, [*small, "data.workers=0", "training.device=cpu", "training.average=1", *more])


def test_three_pairs_and_20000_steps_are_warned_about(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    class UntilFirstStep(Notes):
        def advance(self, step: int) -> None:
            raise Enough

    notes = UntilFirstStep()
    with pytest.raises(Enough):
        regard.train(tiny(tmp_path, 3, "data.hold_out_valid=0"), folder=tmp_path / "run", report=notes)
    assert sum("20,000 passes" in note for note in notes.notes) == 1


def test_a_short_fine_tuning_changes_held_out_text_and_says_by_how_much(tmp_path: Path) -> None:
    """The short form of the slow test: five times the way that the defaults of a long training go in 20 steps."""
    start = regard.train(tiny(tmp_path, 200, "training.steps=60"), folder=tmp_path / "start", quiet=True)
    loss: dict[str, tuple[float, float]] = {}
    for name, more in (("new", ()), ("old", ("training.warmup=1000", "training.learning_rate=1e-3"))):
        notes = Notes()
        recipe = tiny(
            tmp_path, 200, f"training.from={start.folder}", "training.steps=20", "training.metric=loss", *more
        )
        run = regard.train(recipe, folder=tmp_path / name, report=notes)
        loss[name] = notes.scores[0]["loss"], run.scores["loss"]
        change = f"loss {loss[name][0]:.4g} before fine-tuning, {loss[name][1]:.4g} after"
        assert sum(change in note for note in notes.notes) == 1
        assert any("training.warmup=1000 is not shorter" in note for note in notes.notes) == (name == "old")
    gained = {name: before - after for name, (before, after) in loss.items()}
    assert gained["new"] > 2 * gained["old"]
    saved = read_recipe(tmp_path / "new" / "recipe.toml").training
    assert (saved.warmup, saved.learning_rate) == (2, 1e-4)


def test_a_warning_where_held_out_text_gets_worse(tmp_path: Path) -> None:
    start = regard.train(tiny(tmp_path, 200, "training.steps=60"), folder=tmp_path / "start", quiet=True)
    notes = Notes()
    harmful = ("training.steps=20", "training.learning_rate=1.0", "training.clip=0", "training.metric=loss")
    regard.train(tiny(tmp_path, 200, f"training.from={start.folder}", *harmful), folder=tmp_path / "b", report=notes)
    assert sum("warning: fine-tuning made held-out text worse: loss" in note for note in notes.notes) == 1
