"""Checks of a recipe before a run starts: settings that contradict its task, and where the run is written."""

from __future__ import annotations

import os
from pathlib import Path

from regard import registry
from regard.config import Recipe
from regard.errors import UserError
from regard.model._base import Model
from regard.task._base import Task
from regard.task._examples import ExampleTask
from regard.task.generate import Generator
from regard.task.translate import Translator

PAIRS = ("source", "target", "valid_source", "valid_target", "hold_out", "pairs")
EXAMPLES = ("train", "valid", "test")


def check_name(name: str) -> None:
    """The name of a run becomes a folder in runs/."""
    if Path(name).name != name or name in (".", ".."):
        raise UserError(f"name: '{name}' is not the name of a folder; choose another place with --output FOLDER")


def check_data(recipe: Recipe, task: type[Task]) -> None:
    """Refuses data settings that the task would ignore."""
    data, format = recipe.data, str(recipe.data.format.get("kind", ""))
    translates = issubclass(task, Translator)
    if not translates and not issubclass(task, (ExampleTask, Generator)):
        return  # another package's task, which may read either
    for name in EXAMPLES if translates else PAIRS:
        if getattr(data, name):
            own = "data.source and data.target" if translates else "data.train"
            raise UserError(f"data.{name}: a model to {recipe.task} does not read it; name its files by {own}")
    told = recipe.task == "transcribe" and recipe.training.start_from  # a model such as Whisper is told the language
    if not translates and not told and (recipe.source_language or recipe.target_language):
        key = "source_language" if recipe.source_language else "target_language"
        raise UserError(f"{key}: languages are for models that translate, not for one to {recipe.task}; leave it out")
    if translates and data.pairs:
        for name in PAIRS[:-1]:
            if getattr(data, name):
                raise UserError(f"data.{name}: with data.pairs, each entry names its own; leave out one of the two")
    if translates and format and (data.source or data.target):
        raise UserError(f"data.source: {format} makes its own pairs (so does --tiny); leave out one of the two")


def check_model(recipe: Recipe, default: str) -> None:
    """Refuses a model of a kind for other tasks than the default kind is for, and a translator that reads no text."""
    kind = str(recipe.model.get("kind", default))
    tasks = _tasks(kind)
    if tasks and recipe.task not in tasks and recipe.task in _tasks(default):  # a new task may use any model
        raise UserError(f"model.kind: {kind} is a model to {' or '.join(tasks)}, not to {recipe.task}; leave it out")
    stem = recipe.model.get("stem", {})
    stem = stem if isinstance(stem, str) else str(stem.get("kind", "tokens"))
    reads = registry.factory("stem", stem, "model.stem.kind").reads  # type: ignore[attr-defined]
    if recipe.task == "translate" and reads != "text":
        raise UserError(f"model.stem: {stem} reads {reads}, and a translator reads text; use tokens")


def _tasks(kind: str) -> tuple[str, ...]:
    maker = registry.factory("model", kind, "model.kind")
    return maker.tasks if isinstance(maker, type) and issubclass(maker, Model) else ()


def check_tokenizer(recipe: Recipe) -> None:
    """Refuses a `tokenizer.path` without a tokenizer."""
    path = recipe.tokenizer.get("path")
    if path and not recipe.training.start_from and not any(Path(path).glob("tokenizer*")):
        raise UserError(f"tokenizer.path: no tokenizer in {path}; give the folder of a model")


def check_folder(folder: Path) -> None:
    """Refuses a folder that cannot be made or written to."""
    above = folder.absolute()
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise UserError(f"--output: {above} is a file; name a folder for the run")
    if not os.access(above, os.W_OK | os.X_OK):
        raise UserError(f"--output: {above} cannot be written to; name another folder")
