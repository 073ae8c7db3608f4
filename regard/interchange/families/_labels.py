"""The labels of a foreign classifier or tagger: id2label of its config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.data.target.label import MOST, Label
from regard.errors import UserError
from regard.interchange.families._config import Config
from regard.terminal_text import escape_control_characters, one_line

_LONGEST = 200
_USUAL = 2
"""Labels of a config that states none."""
_ONE = "single_label_classification"


def labels_of(config: Config, rows: int | None = None, least: int = 1) -> Label:
    """In the order of the output layer's rows, which confirm their number where they are given. Names that occur twice
    get their number."""
    named = config.get("id2label")
    config.get("label2id")
    stated = config.optional_integer("num_labels", least=1) or config.optional_integer("_num_labels", least=1)
    count = len(named) if isinstance(named, Mapping) else stated or _USUAL
    if rows is not None and count != rows:
        raise UserError(f"{config.where}: {count} labels, but the output layer has {rows:,} rows; take another copy")
    if stated is not None and count != stated:
        raise config.refuse("num_labels", f"id2label names {count:,} labels")
    if not least <= count <= MOST:
        raise config.refuse("id2label", f"{least} to {MOST:,} labels are needed")
    names = [f"LABEL_{id}" for id in range(count)] if named is None else [_name(config, named, i) for i in range(count)]
    seen: set[str] = set()
    unique = []
    for id, name in enumerate(names):
        unique.append(f"{name} ({id})" if name in seen else name)
        seen.add(unique[-1])
    if len(set(unique)) < count:
        raise config.refuse("id2label", "several labels have one name; take another copy of the folder")
    return Label(unique)


def refuse_other_problems(config: Config) -> None:
    """A classifier may have been made for several labels at once, or to predict a number."""
    if config.get("problem_type", _ONE) not in (None, _ONE):
        raise config.refuse("problem_type", f"only {_ONE} is known here")


def _name(config: Config, named: Any, id: int) -> str:
    name = named.get(str(id)) if isinstance(named, Mapping) else None
    if not isinstance(name, str):
        raise config.refuse("id2label", f"a name for each number from 0 is needed, and {id} has none")
    return escape_control_characters(one_line(name))[:_LONGEST].strip() or f"LABEL_{id}"
