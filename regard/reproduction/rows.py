"""The rows of the table: a published score each, with its terms, and how it is measured here (rows.toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.config import Recipe, apply_overrides, read_recipe
from regard.errors import UserError, suggestion

FILE = Path(__file__).with_name("rows.toml")


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    """Data set, test part and model."""
    recipe: str
    score: str
    """The score's name among those that testing gives."""
    unit: str
    published: str
    """The published figure, or figures, as one would write them in a table."""
    source: str
    """Who published it."""
    terms: str
    """What that score is of: preprocessing, split, how it is counted."""
    differs: str
    """What is still different here."""
    shown: str = "{:.2f}"
    """How the score is written."""
    seeds: tuple[int, ...] = (1,)
    folds: int = 0
    """Cross-validation in place of seeds."""
    settings: tuple[str, ...] = ()
    """Changes to the recipe."""
    first: str = ""
    """A recipe that is trained before, and that each run starts from."""
    prepare: str = ""
    """What prepares the data: moses (moses.py)."""
    test: Mapping[str, Any] = field(default_factory=dict)
    """How a translator is tested: source, target, tokenize and options of `translate`; or task, length and count of
    made strings. Empty: on the test examples of the recipe."""
    also: tuple[str, ...] = ()
    """Further scores that are shown."""

    @property
    def runs(self) -> list[str]:
        """The names of the runs, which are their folders."""
        return [f"fold-{n}" for n in range(self.folds)] if self.folds else [f"seed-{n}" for n in self.seeds]

    def resolved(self, run: str, changes: tuple[str, ...] = ()) -> Recipe:
        """The recipe of one of the runs, with further `changes`."""
        kind, _, number = run.partition("-")
        own = [f"data.folds={self.folds}", f"data.fold={number}"] if kind == "fold" else [f"seed={number}"]
        return apply_overrides(read_recipe(self.recipe), [*self.settings, *own, *changes])

    def before(self, changes: tuple[str, ...] = ()) -> list[Recipe]:
        """The recipe that is trained before, if there is one."""
        return [apply_overrides(read_recipe(self.first), changes)] if self.first else []

    @property
    def better(self) -> str:
        """Whether higher or lower is better."""
        return "lower" if "nats" in self.unit else "higher"


def rows() -> dict[str, Row]:
    """All rows by name, in their order on the page."""
    tree = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {name: _row(name, table) for name, table in tree.items()}


def row_of(name: str) -> Row:
    found = rows()
    if name not in found:
        raise UserError(f"no row '{name}'{suggestion(name, found)}; `regard reproduce` lists them")
    return found[name]


def _row(name: str, table: dict[str, Any]) -> Row:
    lists = {key: tuple(value) for key, value in table.items() if isinstance(value, list)}
    texts = {key: " ".join(value.split()) for key, value in table.items() if isinstance(value, str)}
    return Row(name=name, **{**table, **texts, **lists})
