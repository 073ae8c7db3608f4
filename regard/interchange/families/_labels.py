"""The labels of a foreign classifier: id2label of its config, confirmed by the rows of its output layer."""

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


def labels_of(config: Config, rows: int | None) -> Label:
    """`rows`: those of the output layer; None: there is none. Names that occur twice get their number."""
    named = config.get("id2label")
    count = len(named) if isinstance(named, Mapping) else _USUAL if rows is None else _count(config)
    if rows is not None and count != rows:
        raise UserError(f"{config.where}: {count} labels, but the output layer has {rows:,} rows; take another copy")
    if not 1 <= count <= MOST:
        raise UserError(f"{config.where}: {count} labels; 1 to {MOST:,} are possible")
    names = [f"LABEL_{id}" for id in range(count)] if named is None else [_name(config, named, i) for i in range(count)]
    seen: set[str] = set()
    unique = []
    for id, name in enumerate(names):
        unique.append(f"{name} ({id})" if name in seen else name)
        seen.add(unique[-1])
    if len(set(unique)) < count:
        raise config.refuse("id2label", "several labels have one name; take another copy of the folder")
    return Label(unique)


def _count(config: Config) -> int:
    for key in ("num_labels", "_num_labels"):
        if (stated := config.optional_integer(key, least=1)) is not None:
            return stated
    return _USUAL


def _name(config: Config, named: Any, id: int) -> str:
    name = named.get(str(id)) if isinstance(named, Mapping) else None
    if not isinstance(name, str):
        raise config.refuse("id2label", f"a name for each number from 0 is needed, and {id} has none")
    return escape_control_characters(one_line(name))[:_LONGEST].strip() or f"LABEL_{id}"
