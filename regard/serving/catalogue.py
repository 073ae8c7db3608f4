"""The catalogue of served models and their language pairs, read from model folders without loading weights."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from regard.config import read_recipe
from regard.errors import UserError, suggestion
from regard.find_model import find_model
from regard.imported_models import imported_models
from regard.languages import internal, is_code, split_pair
from regard.pretrained import shipped_models

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class ServedModel:
    """A model under the name that requests use, which is never a path."""

    name: str
    folder: Path
    task: str
    source: str = ""
    target: str = ""
    """Internal language codes (languages.py); empty for other tasks than translation."""
    aligns: bool = True
    """Whether it can align words: a decoder without attention cannot."""
    beam: int = 1
    """Its default beam width."""
    optional: bool = False
    """Whether the server starts without it if it cannot be loaded."""


class Catalogue:
    """The models of a server. Of two models for one language pair, the first is used."""

    def __init__(self, models: Iterable[ServedModel]):
        self.models: dict[str, ServedModel] = {}
        for model in models:
            if model.name in self.models:
                raise UserError(f"two models are called '{model.name}'; rename the folder of one")
            self.models[model.name] = model
        self._pairs: dict[tuple[str, str], ServedModel] = {}
        for model in self.of_task("translate"):
            self._pairs.setdefault((model.source, model.target), model)

    def of_task(self, task: str) -> list[ServedModel]:
        return [model for model in self.models.values() if model.task == task]

    def pair(self, source: str, target: str) -> ServedModel | None:
        """The model that translates between two languages, if there is one."""
        return self._pairs.get((source, target))

    def languages(self) -> list[str]:
        return sorted({code for pair in self._pairs for code in pair})

    def targets(self, source: str) -> list[str]:
        """Target languages of a source language, which always include itself (the text is returned unchanged)."""
        found = {target for origin, target in self._pairs if origin == source}
        return sorted({*found, source}) if source in self.languages() else []

    def find(self, name: str, task: str) -> ServedModel:
        """A model by name, or the only model of the task if the name is empty."""
        offered = {model.name: model for model in self.of_task(task)}
        if name in offered:
            return offered[name]
        if not offered:
            raise UserError(f"no model of this server can {task}")
        if name:
            shown = name if len(name) <= 60 else f"{name[:57]}..."
            raise UserError(f"no model '{shown}' to {task}{suggestion(shown, offered)}")
        if len(offered) > 1:
            raise UserError(f"several models {task}: name one of {', '.join(sorted(offered))}")
        return next(iter(offered.values()))


def read_catalogue(names: Iterable[str]) -> Catalogue:
    """Builds the catalogue from model folders, runs, names of shipped models, and folders of models."""
    found = [model for name in names for model in read_models(name)]
    if not found:
        raise UserError("no model given; try: regard serve --model fr-en")
    return Catalogue(found)


def read_models(name: str, languages: bool = True) -> list[ServedModel]:
    """The models that a name stands for. With `languages`, a translator must have a language pair.

    `fr-en=FOLDER` overrides the languages of a translator's recipe.
    """
    stated, equals, place = name.partition("=")
    if equals and not Path(name).exists():
        return [_between(stated, place)]
    path = Path(name)
    if folder := _folder(path):
        return [_served(_public_name(path), folder, languages)]
    inside = sorted(path.iterdir()) if path.is_dir() else []
    if several := [(child.name, folder) for child in inside if child.is_dir() and (folder := _folder(child))]:
        return [_served(_NOT_PLAIN.sub("-", child), folder, languages) for child, folder in several]
    if path.is_dir() and name not in shipped_models() and name not in imported_models():
        raise UserError(
            f"{path}: no model in this folder (no manifest.json); give a model folder, a run or a folder of them"
        )
    folder = find_model(name)
    return [_served(name if name in shipped_models() else _public_name(folder), folder, languages)]


def _between(languages: str, name: str) -> ServedModel:
    """The translator of that name with the language pair `languages`, such as fr-en."""
    pair = split_pair(languages)
    if pair is None:
        raise UserError(f"'{languages}={name}': '{languages}' is not a language pair; write it like fr-en={name}")
    found = read_models(name, languages=False)
    if len(found) > 1 or found[0].task != "translate":
        raise UserError(f"'{languages}={name}': languages can only be set for one translator, and {name} is not one")
    return replace(found[0], source=internal(pair[0]), target=internal(pair[1]))


def _folder(path: Path) -> Path | None:
    """The model folder at a path: the path itself, or a run's final model or newest checkpoint."""
    checkpoints = sorted((path / "checkpoints").glob("step-*")) if path.is_dir() else []
    for folder in (path, path / "model", *checkpoints[-1:]):
        if (folder / "manifest.json").is_file():
            return folder
    return None


def _public_name(path: Path) -> str:
    return _NOT_PLAIN.sub("-", path.resolve().name).strip("-.") or "model"


def _served(name: str, folder: Path, languages: bool) -> ServedModel:
    recipe = read_recipe(folder)
    if recipe.task != "translate":
        return ServedModel(name, folder, recipe.task)
    source, target = internal(recipe.source_language), internal(recipe.target_language)
    if languages and not (is_code(source) and is_code(target)):
        raise UserError(
            f"{folder}: its recipe names no language pair; set it, for example from French to English: "
            f"--model fr-en={folder}"
        )
    decoder = recipe.model.get("decoder", {})
    kind = decoder.get("kind") if isinstance(decoder, dict) else decoder
    return ServedModel(name, folder, recipe.task, source, target, kind != "recurrent", recipe.decoding.beam)
