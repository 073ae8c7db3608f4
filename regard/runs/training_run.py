"""`regard.train`: from a recipe to a run's folder with a finished model in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.config import Recipe, apply_overrides, read_recipe, tiny_form, to_toml
from regard.errors import UserError, suggestion
from regard.loading import load, model_files, task_of
from regard.runs.checks import check_folder, check_name
from regard.runs.preparation import data_files, join, prepare
from regard.runs.resolution import Files, file_names, resolve, with_absolute_paths
from regard.runs.restarts import begun_before_restart, remember_launch
from regard.runs.setup import make_trainer, without_paths
from regard.storage import write_folder
from regard.task._base import Prepared
from regard.training.defaults import with_defaults
from regard.training.distributed import together
from regard.training.listener import Listener, Quiet
from regard.training.progress import Reporter
from regard.training.ranks import Ranks
from regard.training.resume_settings import refuse_fixed_changes
from regard.training.step import learning_rate_schedule
from regard.training.trainer import Trainer


@dataclass
class Run:
    """A run and its result."""

    folder: Path
    reason: str
    """Why it ended: steps, minutes, patience or interrupted."""
    scores: dict[str, float] = field(default_factory=dict)
    """Of the finished model, on the validation examples."""
    speaks: bool = True
    """False in ranks other than 0, which reports for all."""

    @cached_property
    def model(self) -> Any:
        """The finished model, ready to use: loaded on first access and kept."""
        return load(self.folder)


def train(
    recipe: Recipe | str | Path | None = None,
    *overrides: str,
    task: str | None = None,
    source: Files | None = None,
    target: Files | None = None,
    valid_source: Files | None = None,
    valid_target: Files | None = None,
    start_from: str | Path | None = None,
    tiny: bool = False,
    steps: int | None = None,
    device: str | None = None,
    out: str | Path | None = None,
    folder: str | Path | None = None,
    resume: bool | str | Path = False,
    quiet: bool = False,
    report: Listener | None = None,
) -> Run:
    """Trains a model by a recipe or on two text files, as the command `regard train` does.

    Processes started by torchrun train together; rank 0 prepares the data and reports. When torchrun starts them
    again, they go on from the last checkpoint.

    Args:
        recipe: A recipe's file, or the name of a shipped one (`regard recipes` lists them).
        overrides: Settings such as `"training.steps=200"`.
        task: What the model is for, if the recipe does not say.
        source: One or more text files in the source language.
        target: Their translations, line by line.
        valid_source: Text to validate on; by default part of the training text is held out.
        valid_target: Its translation.
        start_from: A model to fine-tune, by name or path.
        tiny: Train the recipe's `[tiny]` form in seconds, on generated data.
        steps: Training steps.
        device: "auto", "cpu", "cuda" or "cuda:1".
        out: The folder of the new run.
        folder: The former name of `out`.
        resume: The folder of a run to continue, for example one that a signal stopped.
        quiet: Print nothing.
        report: Receives progress instead of the terminal.

    Returns:
        The run: its folder, its scores and its finished model (`run.model`).
    """
    if folder is not None:
        if out is not None:
            raise UserError("out and folder are the same; give out alone")
        out = folder
    if resume and resume is not True:
        if recipe or source or target or out or start_from or tiny:
            raise UserError("resume goes on with a run as it is; it takes no recipe, source, target, start_from or out")
        out, resume = Path(resume), True
    named = {
        "task": task,
        "data.valid_source": None if valid_source is None else file_names(valid_source),
        "data.valid_target": None if valid_target is None else file_names(valid_target),
        "training.from": start_from and str(start_from),
        "training.steps": steps,
        "training.device": device,
    }
    # JSON texts, numbers and lists are also TOML.
    changes = [*overrides, *(f"{key}={json.dumps(v, ensure_ascii=False)}" for key, v in named.items() if v is not None)]
    begun: list[tuple[Recipe, Prepared, Path, Listener]] = []
    fresh: list[Path] = []

    def begin() -> dict[str, Any]:
        notes: list[str] = []
        goes_on = bool(resume)
        if resume:
            if out is None:
                raise UserError("to resume, say which run: regard train --resume RUN")
            place = Path(out)
            resolved = _resumed(place, changes)
            _check_start(resolved, ranks)
        else:
            base = recipe if isinstance(recipe, Recipe) else read_recipe(recipe) if recipe else Recipe()
            stated = apply_overrides(tiny_form(base) if tiny else base, changes)
            check_name(stated.name)
            if out:
                check_folder(Path(out))
            _check_start(stated, ranks)
            resolved = resolve(stated, source, target, notes.append)
            place = Path(out) if out else new_folder(resolved)
            if begun_before_restart(place) and (place / "recipe.toml").is_file():
                resolved, goes_on = _resumed(place, []), True
                notes = [f"restarted: going on with {place}"]
            elif (place / "checkpoints").exists():
                raise UserError(f"{place} already holds a run; go on with --resume {place} or choose another folder")
        if not place.exists():
            fresh.append(place)
        remember_launch(place)
        listener = report or (Quiet() if quiet else Reporter(place, unit=task_of(resolved).unit))
        for note in notes:
            listener.note(note)
        resolved = _with_batch_per_rank(resolved, ranks, listener)
        begun.append((resolved, prepare(resolved, place, goes_on, listener), place, listener))
        files = data_files(resolved)
        return {"recipe": to_toml(resolved), "place": str(place.absolute()), "files": files, "goes_on": goes_on}

    with together() as ranks:
        with _removed_if_refused(fresh):
            shared = ranks.first(begin)
            goes_on = shared.pop("goes_on")
            started = begun[0] if begun else join(ranks, **shared)
            trainer = make_trainer(*started, goes_on, ranks)
        return _fit(trainer, *started[:3], ranks)


def _check_start(recipe: Recipe, ranks: Ranks) -> None:
    """Refuses, before any data are read, what the machine or the task cannot do."""
    ranks.device(recipe.training.device)
    learning_rate_schedule(with_defaults(recipe.training))
    metric, scores = recipe.training.metric, task_of(recipe).scores_of(recipe)
    if metric and scores and metric not in scores:
        raise UserError(f"training.metric: validation gives no '{metric}'{suggestion(metric, scores)}")


@contextmanager
def _removed_if_refused(fresh: list[Path]) -> Iterator[None]:
    """Removes the folders that a refused start made; `fresh` has only those that did not exist before."""
    try:
        yield
    except UserError:
        for folder in fresh:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _resumed(place: Path, overrides: Sequence[str]) -> Recipe:
    """The recipe of a run with changed settings. Refuses those that cannot change before anything is written."""
    saved = saved_recipe(place)
    wanted = apply_overrides(saved, overrides)
    refuse_fixed_changes(place, saved, wanted)
    return with_absolute_paths(
        replace(wanted, training=with_defaults(wanted.training, bool(wanted.training.start_from)))
    )


def _with_batch_per_rank(recipe: Recipe, ranks: Ranks, report: Listener) -> Recipe:
    """The recipe with at least one batch a step for each rank. It is saved so, also for a resume with fewer ranks."""
    if ranks.size == 1:
        return recipe
    report.note(f"{ranks.size} processes train together")
    accumulate = recipe.training.accumulate
    if accumulate >= ranks.size:
        return recipe
    report.note(f"training.accumulate is raised from {accumulate} to {ranks.size}: one batch a step for each process")
    return replace(recipe, training=replace(recipe.training, accumulate=ranks.size))


def _fit(trainer: Trainer, recipe: Recipe, prepared: Prepared, place: Path, ranks: Ranks) -> Run:
    result = trainer.fit()

    def learn_errors() -> None:
        if result.model and prepared.valid:
            finished = task_of(recipe)(recipe, prepared.codec, trainer.model, trainer.device)
            if finished.learn_errors(prepared.valid):
                saved = without_paths(recipe)
                write_folder(result.model, model_files(saved, prepared.codec, trainer.weights, "float32"))

    ranks.first(learn_errors)
    return Run(place, result.reason, result.scores, ranks.is_first)


def saved_recipe(place: Path) -> Recipe:
    if not (place / "recipe.toml").is_file():
        raise UserError(f"{place}: no run to resume or to test (no recipe.toml in it)")
    return read_recipe(place / "recipe.toml")


def new_folder(recipe: Recipe) -> Path:
    """runs/NAME, or runs/NAME-2 and so on when that is taken, unless this launch itself took it before a restart."""
    name = recipe.name or "-".join(filter(None, (recipe.source_language, recipe.target_language))) or recipe.task
    folder, count = Path("runs") / name, 1
    while folder.exists() and not begun_before_restart(folder):
        count += 1
        folder = Path("runs") / f"{name}-{count}"
    return folder
