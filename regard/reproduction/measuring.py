"""Trains and tests the runs of a row. What is finished is not done again: a killed measurement goes on where it was."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard import __version__
from regard.config import Recipe, tiny_form
from regard.data.format.made_algorithm import algorithm_pairs
from regard.device import pick_device
from regard.errors import UserError
from regard.evaluating import read_texts
from regard.evaluation.translation import corpus_scores
from regard.loading import load
from regard.reproduction import moses
from regard.reproduction.record import Measured, Record, read_record, recipe_hash, record_file, write_record
from regard.reproduction.rows import Row
from regard.runs import resolve, test, train
from regard.runs.training_run import saved_recipe
from regard.training.state import STATE

Note = Callable[[str], None]
PREPARATIONS: dict[str, Callable[[Path, Note], None]] = {"moses": moses.prepare}


def measure(
    row: Row, folder: Path, records: Path, data: Path, *, device: str = "auto", quiet: bool = False, note: Note
) -> Record:
    """Measures what the record of a row lacks. `folder` holds the runs, `data` the data sets.

    Raises KeyboardInterrupt when a signal stopped a run; calling it again goes on with that run.
    """
    changes: tuple[str, ...] = (f'data.root="{data}"', f'training.device="{device}"')
    whole = hash_of(row)
    record = read_record(records, row.name) or Record(row.name, whole)
    if record.recipe != whole:
        raise UserError(
            f"{record_file(records, row.name)} was measured with another recipe; "
            f"delete it and {folder / row.name} to measure again"
        )
    done = {run.run for run in record.runs}
    if missing := [run for run in row.runs if run not in done]:
        if row.prepare:
            PREPARATIONS[row.prepare](data, note)
        for recipe in row.before(changes):
            finish(recipe, folder / row.name / "first", quiet)
            changes = (*changes, f'training.from="{folder / row.name / "first"}"')
    for run in missing:
        note(f"{row.name}, {run}")
        place, began = folder / row.name / run, time.process_time()
        fresh = not place.exists()
        finish(row.resolved(run, changes), place, quiet)
        model = load(place, device)
        scores = scored(row, place, model, data, device)
        seconds = round(time.process_time() - began) if fresh else None
        found = Measured(run, _rounded(scores), _rounded(_validated(place)), seconds)
        record = replace(
            record.with_run(found),
            parameters=sum(parameter.numel() for parameter in model.model.parameters()),
            device=_name(pick_device(device)),
            versions={"regard": __version__, "torch": torch.__version__},
        )
        write_record(records, record)
    return record


def hash_of(row: Row) -> str:
    """The hash of a row's recipes."""
    return recipe_hash(row.resolved(row.runs[0]), *row.before())


def _validated(place: Path) -> dict[str, float]:
    """The validation scores of a run's best checkpoint."""
    newest = max((place / "checkpoints").glob(f"step-*/{STATE}"), default=None)
    return json.loads(newest.read_text(encoding="utf-8"))["best_scores"] if newest else {}


def _rounded(scores: dict[str, float]) -> dict[str, float]:
    return {name: round(float(value), 5) for name, value in scores.items()}


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def rehearse(row: Row, folder: Path, quiet: bool = True) -> dict[str, float]:
    """Trains the tiny form of a row's recipe in seconds, on data that the package makes, and gives its scores."""
    recipe = tiny_form(row.resolved(row.runs[0]))
    run = train(recipe, folder=folder / row.name, quiet=quiet)
    if run.reason == "interrupted":
        raise KeyboardInterrupt
    return run.scores


def finish(recipe: Recipe, place: Path, quiet: bool) -> None:
    """Trains a run, or what is left of it."""
    if place.exists():
        # Resolved once more, a run of an earlier version has the keys that are new since, as they are by default.
        if recipe_hash(resolve(saved_recipe(place))) != recipe_hash(resolve(recipe)):
            raise UserError(f"{place} was trained by another recipe or on other files; delete it to begin again")
        if (place / "model").is_dir():
            return
    begun = any((place / "checkpoints").glob("step-*"))
    if place.exists() and not begun:
        raise UserError(f"{place} was stopped before its first checkpoint; delete it to begin again")
    run = train(resume=place, quiet=quiet) if begun else train(recipe, folder=place, quiet=quiet)
    if run.reason == "interrupted":
        raise KeyboardInterrupt


def scored(row: Row, place: Path, model: Any, data: Path, device: str) -> dict[str, float]:
    """The scores of a finished run on the test part."""
    how = dict(row.test)
    if not how:
        return test(place, device)
    if "length" in how:
        return right(model, **how)
    source, target, tokenize = (how.pop(name) for name in ("source", "target", "tokenize"))
    sources, references = read_texts([data / source, data / target])
    outputs = [translation.text for translation in model.translate(sources, **how)]
    found = corpus_scores(outputs, references, tokenize=tokenize, language=model.recipe.target_language)
    return {"bleu": found.bleu, "chrf": found.chrf}


def right(model: Any, task: str, length: int, count: int) -> dict[str, float]:
    """Strings of one length, made anew: the share that is right from end to end, and the share of right places."""
    pairs = list(algorithm_pairs(task, count, np.random.default_rng([7, length]), length, length))
    found = model.search([model.encode(source) for source, _ in pairs], beam=1, max_length=2 * length + 6)
    written = [model.tokenizer.decode(hypotheses[0].ids).split() for hypotheses in found]
    wanted = [target.split() for _, target in pairs]
    places = [sum(map(str.__eq__, one, other)) / len(other) for one, other in zip(written, wanted)]
    return {
        "strings": 100 * sum(one == other for one, other in zip(written, wanted)) / count,
        "places": 100 * sum(places) / count,
    }
