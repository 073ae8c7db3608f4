"""The catalogue of served models and their language pairs, read from model folders without loading weights."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from regard import directions
from regard.config import Recipe, read_recipe
from regard.errors import UserError, suggestion
from regard.find_model import find_model
from regard.imported_models import imported_models
from regard.languages import internal, is_code, public, split_pair
from regard.pretrained import shipped_models

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")
MAX_LISTED = 20
"""Languages that a message lists."""
MIDDLE = "en"
"""The language that chains prefer to go through: most models translate from or to it."""


@dataclass(frozen=True)
class ServedModel:
    """A model under the name that requests use, which is never a path."""

    name: str
    folder: Path
    task: str
    source: str = ""
    target: str = ""
    """Internal language codes (languages.py) of a translator with one direction; else empty."""
    aligns: bool = True
    """Whether it can align words: a decoder without attention cannot."""
    beam: int = 1
    """Its default beam width."""
    optional: bool = False
    """Whether the server starts without it if it cannot be loaded."""

    directions: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """The target languages of each source language of a translator that must be told the direction of every text."""

    @property
    def multilingual(self) -> bool:
        """Whether requests to it state a direction."""
        return bool(self.directions)

    @property
    def targets(self) -> Mapping[str, tuple[str, ...]]:
        """The target languages of each source language."""
        return self.directions or ({self.source: (self.target,)} if self.source else {})

    def between(self, languages: Collection[str]) -> ServedModel | None:
        """The model with its directions between these languages only; None if it has none of those."""
        if not self.multilingual:
            return self if {self.source, self.target} <= set(languages) else None
        kept = {
            source: tuple(target for target in targets if target in languages)
            for source, targets in self.directions.items()
            if source in languages
        }
        kept = {source: targets for source, targets in kept.items() if targets}
        return replace(self, directions=kept) if kept else None

    def step(self, source: str = "", target: str = "") -> Step:
        """The direction that is meant, with what goes without saying filled in. Refuses what the model lacks."""
        if not self.directions:
            for wanted, has, side in ((source, self.source, "from"), (target, self.target, "to")):
                if wanted and wanted != has:
                    raise UserError(f"the model {self.name} does not translate {side} {_shown(wanted)}")
            return Step(self, self.source, self.target)
        if not source and len(self.directions) == 1:
            (source,) = self.directions
        if source and source not in self.directions:
            near = _nearest(source, self.directions)
            raise UserError(f"the model {self.name} does not translate from {_shown(source)}{near}")
        targets = self.directions[source] if source else ()
        if not target and len(targets) == 1:
            (target,) = targets
        if target and source and target not in targets:
            what = f"from {_shown(source)} to {_shown(target)}"
            raise UserError(f"the model {self.name} does not translate {what}{_nearest(target, targets)}")
        if not source or not target:
            raise UserError(f"the model {self.name} translates between several languages: name source and target")
        return Step(self, source, target)


class Step(NamedTuple):
    """One translation on the way from a language to another: the model, and its direction."""

    model: ServedModel
    source: str
    target: str

    def direction(self) -> tuple[str, str] | tuple[None, None]:
        """What the model must be told; nothing if it has one direction only."""
        return (self.source, self.target) if self.model.multilingual else (None, None)


Route = tuple[Step, ...]
"""One step or, through a third language, two."""


def name_of(route: Route) -> str:
    return "+".join(step.model.name for step in route)


def aligns(route: Route) -> bool:
    return all(step.model.aligns for step in route)


class Catalogue:
    """The models of a server. Of two models for one direction, the first is used."""

    def __init__(self, models: Iterable[ServedModel]):
        self.models: dict[str, ServedModel] = {}
        for model in models:
            if model.name in self.models:
                raise UserError(f"two models are called '{model.name}'; rename the folder of one")
            self.models[model.name] = model
        self._direct: dict[str, dict[str, ServedModel]] = {}
        """For each source language, the model for each target language."""
        for model in self.of_task("translate"):
            for source, targets in model.targets.items():
                known = self._direct.setdefault(source, {})
                for target in targets:
                    known.setdefault(target, model)
        self._languages = sorted({*self.sources(), *self.all_targets()})
        self._targets = {source: self._reachable(source) for source in self._languages}

    def of_task(self, task: str) -> list[ServedModel]:
        return [model for model in self.models.values() if model.task == task]

    def route(self, source: str, target: str) -> Route:
        """How to translate between two languages: with one model if possible, else with two through a third language,
        preferably English. Empty if neither exists."""
        known = self._direct.get(source, {})
        if model := known.get(target):
            return (Step(model, source, target),)
        if source == target:
            return ()
        middles = [code for code in known if target in self._direct.get(code, ())]
        if not middles:
            return ()
        middle = min(middles, key=lambda code: (code != MIDDLE, code))
        return Step(known[middle], source, middle), Step(self._direct[middle][target], middle, target)

    def languages(self) -> list[str]:
        """All source and target languages, sorted."""
        return self._languages

    def sources(self) -> list[str]:
        """The languages that can be translated from."""
        return sorted(self._direct)

    def all_targets(self) -> list[str]:
        """The languages that can be translated to."""
        return sorted({target for known in self._direct.values() for target in known})

    def targets(self, source: str) -> list[str]:
        """Target languages of a source language, directly or through a third one. They always include itself (the text
        is returned unchanged)."""
        return self._targets.get(source, [])

    def _reachable(self, source: str) -> list[str]:
        known = self._direct.get(source, {})
        found = {source, *known}
        for middle in known:
            if len(found) == len(self._languages):
                break  # usual for a model with many languages: looking further would take seconds
            found.update(self._direct.get(middle, ()))
        return sorted(found)

    def summary(self) -> str:
        """The names of the models, and how many languages those with several have."""

        def said(model: ServedModel) -> str:
            codes = {*model.directions, *(target for targets in model.directions.values() for target in targets)}
            return f"{model.name} ({len(codes)} languages)" if codes else model.name

        return ", ".join(map(said, self.models.values()))

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


def read_catalogue(names: Iterable[str], languages: Collection[str] = ()) -> Catalogue:
    """Builds the catalogue from model folders, runs, names of shipped models, and folders of models.

    With `languages`, translators have only their directions between these.
    """
    found = [model for name in names for model in read_models(name)]
    if not found:
        raise UserError("no model given; try: regard serve --model fr-en")
    if languages:
        between = (model if model.task != "translate" else model.between(languages) for model in found)
        found = [model for model in between if model]
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
    model, source, target = found[0], internal(pair[0]), internal(pair[1])
    if not model.multilingual:
        return replace(model, source=source, target=target)
    step = model.step(source, target)  # only this direction of several
    return replace(model, directions={step.source: (step.target,)})


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
    several = _directions(recipe)
    stated = directions.directions(recipe) or [(internal(recipe.source_language), internal(recipe.target_language))]
    source, target = ("", "") if several else stated[0]
    if languages and not several and not (is_code(source) and is_code(target)):
        raise UserError(
            f"{folder}: its recipe names no language pair; set it, for example from French to English: "
            f"--model fr-en={folder}"
        )
    decoder = recipe.model.get("decoder", {})
    kind = decoder.get("kind") if isinstance(decoder, dict) else decoder
    return ServedModel(
        name, folder, recipe.task, source, target, kind != "recurrent", recipe.decoding.beam, directions=several
    )


def _directions(recipe: Recipe) -> dict[str, tuple[str, ...]]:
    """The targets of each source of a model with several directions; empty for one with a single one."""
    if not directions.is_multilingual(recipe):
        return {}
    found: dict[str, list[str]] = {}
    for source, target in directions.directions(recipe):
        found.setdefault(source, []).append(target)
    return {source: tuple(targets) for source, targets in found.items()}


def _shown(code: str) -> str:
    return f"'{public(code)}'"


def _nearest(code: str, known: Collection[str]) -> str:
    """What the model has instead: the nearest code or, if there are few, all."""
    found = suggestion(code, known)
    return found if len(known) <= MAX_LISTED or "did you mean" in found else ""
