"""Lists experiments by name, with claim and lecture read from their source, so that torch is not imported."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from regard import registry
from regard.errors import UserError, suggestion


@dataclass(frozen=True)
class Entry:
    name: str
    lecture: str
    claim: str


def entries() -> list[Entry]:
    """All experiments, sorted by name."""
    return [_entry(kind) for kind in registry.kinds("lab")]


def shown(kind: str) -> str:
    """The name on the command line: gradients_through_time is gradients-through-time."""
    return kind.replace("_", "-")


def kind_of(name: str) -> str:
    """The file of an experiment; an unknown name is refused with a suggestion."""
    names = {shown(kind): kind for kind in registry.kinds("lab")}
    found = names.get(shown(name))
    if found is None:
        raise UserError(f"no experiment '{name}'{suggestion(name, names)}")
    return found


def _entry(kind: str) -> Entry:
    file = registry.ROOT / "lab" / f"{kind}.py"
    if file.is_file():
        found = _literals(ast.parse(file.read_text(encoding="utf-8")))
    else:  # an entry point of another package has to be imported
        found = vars(registry.factory("lab", kind))
    return Entry(shown(kind), str(found.get("lecture", "")), str(found.get("claim", "")))


def _literals(module: ast.Module) -> dict[str, Any]:
    """The literal class attributes in a file."""
    found: dict[str, Any] = {}
    for statement in (line for part in module.body if isinstance(part, ast.ClassDef) for line in part.body):
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            found |= {target.id: statement.value.value for target in statement.targets if isinstance(target, ast.Name)}
    return found
