"""What was measured for a row, as a JSON file: the scores of every run, and on what."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

from regard.config import Recipe
from regard.errors import UserError
from regard.storage import write_file


@dataclass(frozen=True)
class Measured:
    """One run: a seed or a fold."""

    run: str
    scores: dict[str, float]
    """On the test part, which is used once, at the end."""
    validation: dict[str, float]
    """What settings and checkpoint were chosen by."""
    seconds: float | None
    """Processor time of training and testing; None where the run was trained before or in pieces."""


@dataclass(frozen=True)
class Record:
    row: str
    recipe: str
    """A hash of the recipe without seed, fold and paths: scores of different recipes are not put together."""
    parameters: int = 0
    device: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    runs: list[Measured] = field(default_factory=list)

    def values(self, score: str) -> list[float]:
        return [run.scores[score] for run in self.runs if score in run.scores]

    def summary(self, score: str) -> tuple[float, float]:
        """Mean and standard deviation over the runs."""
        values = self.values(score)
        return mean(values), pstdev(values)

    def with_run(self, found: Measured) -> Record:
        return replace(self, runs=[*(run for run in self.runs if run.run != found.run), found])

    def json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False) + "\n"


def record_file(folder: Path, row: str) -> Path:
    return folder / f"{row}.json"


def read_record(folder: Path, row: str) -> Record | None:
    """The record of a row; None if nothing was measured yet."""
    file = record_file(folder, row)
    if not file.is_file():
        return None
    try:
        tree = json.loads(file.read_text(encoding="utf-8"))
        runs = tree.pop("runs")
        if tree["row"] != row or not all(type(value) is float for one in runs for value in one["scores"].values()):
            raise ValueError
        record = Record(**tree, runs=[Measured(**one) for one in runs])
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
        raise UserError(f"{file}: is no record of {row}; delete it to measure again") from None
    return record


def write_record(folder: Path, record: Record) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_file(record_file(folder, record.row), record.json().encode())
    return record_file(folder, record.row)


def recipe_hash(*recipes: Recipe) -> str:
    """The same for every seed and fold, wherever the data lie and whatever the device.

    Only of what differs from the defaults, so that a new key of recipes changes no hash.
    """
    found = hashlib.sha256()
    defaults = dataclasses.asdict(Recipe())
    for recipe in recipes:
        data = replace(recipe.data, root=defaults["data"]["root"], fold=0)
        training = replace(recipe.training, device="auto", start_from="")
        plain = replace(recipe, seed=1, name="", data=data, training=training, tiny={})
        own = _differing(dataclasses.asdict(plain), defaults)
        found.update(json.dumps(own, sort_keys=True).encode())
    return found.hexdigest()[:16]


def _differing(tree: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in tree.items():
        default = defaults.get(name)
        if isinstance(value, dict) and isinstance(default, dict):
            found[name] = _differing(value, default)
        elif value != default:
            found[name] = value
    return {name: value for name, value in found.items() if value != {}}
