"""The reference of recipe keys, derived from their declarations: rows, a Markdown page, a JSON Schema for editors and
shell completions. Imports no torch."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Iterator
from typing import Any

from regard import config
from regard.errors import UserError, suggestion
from regard.setting import Key, Setting, all_keys, declared
from regard.toml_text import toml_text

BY_KIND = "by kind"
"""The default of a part's key is in its constructor."""
PAGE_HEAD = """# Settings

Every key of a recipe, with type, range, default and description. In a recipe `training.steps` is the key `steps` of the
section `[training]`; on a command line it is written `regard train RECIPE training.steps=200`.

- `regard recipes --keys [SECTION]` prints these tables, with `--json` as JSON.
- `regard recipes --schema > recipe.schema.json` writes a JSON Schema; with `#:schema recipe.schema.json` as the first
  line of a recipe, editors that know TOML (taplo, Even Better TOML) check and complete it.
- A value of the wrong type or out of range is refused in one line, before any work.
- "by kind": the key belongs to parts, each with its own default. Not every kind takes every key; one that it does not
  take is refused. A part's key that stands in `[model]` itself is for all parts that take it.

This page is written by `python tools/settings_page.py`; do not edit it by hand.
"""


@dataclasses.dataclass(frozen=True)
class Row:
    key: str
    type: str
    range: str
    """Limits, or the choices."""
    default: str
    description: str


def rows(section: str = "") -> list[Row]:
    """The keys of a section and its subsections, or of all sections."""
    every = dict(_leaves())
    chosen = [path for path in every if not section or path == section or path.startswith(f"{section}.")]
    if not chosen:
        known = {".".join(path.split(".")[:depth]) for path in every for depth in range(1, path.count(".") + 2)}
        near = difflib.get_close_matches(section, known, n=1)
        raise UserError(f"no section '{section}' of recipes{suggestion(section, near or _sections())}")
    return [_row(path, every[path]) for path in chosen]


def _sections() -> list[str]:
    return [path for path, key in all_keys(config.Recipe) if "." not in path and dict in key.types]


def _leaves() -> Iterator[tuple[str, Key]]:
    """Every key that takes a value: not sections, but parts that a string can name."""
    for path, key in all_keys(config.Recipe):
        if key.types != (dict,) or not key.section:
            yield path, key


def _row(path: str, key: Key) -> Row:
    default = BY_KIND if key.default is None else _toml(_default(path, key))
    limits = ", ".join(key.setting.options) or key.setting.range
    kinds = " or ".join(_type_name(kind) for kind in key.types)
    return Row(path, kinds, limits, default, key.setting.about)


def _default(path: str, key: Key) -> Any:
    return "data" if path == "data.root" else key.default  # independent of REGARD_DATA


def _toml(value: Any) -> str:
    return "{}" if value == {} else toml_text({"x": value}).partition(" = ")[2].strip()


def _type_name(kind: Any) -> str:
    if typing.get_origin(kind) is list:
        if dataclasses.is_dataclass(typing.get_args(kind)[0]):
            return "list of tables"
        return f"list of {_type_name(typing.get_args(kind)[0])}s"
    return {str: "text", int: "integer", float: "number", bool: "boolean", dict: "table"}[kind]


def page() -> str:
    """docs/settings.md."""
    top = [row for row in rows() if "." not in row.key and row.key != "tiny"]
    parts = [PAGE_HEAD, _table("Top level", top)]
    for section in (
        "data",
        "data.format",
        "tokenizer",
        "input",
        "model",
        *_model_parts(),
        "training",
        "decoding",
        "tiny",
    ):
        deeper = [other for other in ("data.format", *_model_parts()) if other != section]
        inside = [row for row in rows(section) if not any(row.key.startswith(f"{other}.") for other in deeper)]
        parts.append(_table(f"`[{section}]`", inside))
    return "\n".join(parts)


def _model_parts() -> tuple[str, ...]:
    return ("model.stem", "model.encoder", "model.decoder")


def _table(title: str, found: list[Row]) -> str:
    lines = [f"## {title}\n", "| key | type | range | default | description |", "|---|---|---|---|---|"]
    for row in found:
        default = row.default if row.default == BY_KIND else f"`{row.default}`"
        cells = (f"`{row.key}`", row.type, row.range, default, row.description)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def json_schema() -> dict[str, Any]:
    """A JSON Schema (draft 2020-12) of recipes, for editors."""
    top = _object(config.Recipe)
    beats = {"type": "object", "additionalProperties": {"type": "number"}}
    inner = {name: part for name, part in top["properties"].items() if name != "tiny"}
    top["properties"]["tiny"] |= {"properties": inner | {"beats": beats}, "additionalProperties": False}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Regard recipe"} | top


def _object(section: type) -> dict[str, Any]:
    """Dataclasses take no other keys; tables may have keys of other packages."""
    properties = {name: _schema(key) for name, key in declared(section).items()}
    closed = {"additionalProperties": False} if dataclasses.is_dataclass(section) else {}
    return {"type": "object", "properties": properties} | closed


def _schema(key: Key) -> dict[str, Any]:
    ways = [_way(kind, key) for kind in key.types]
    found = ways[0] if len(ways) == 1 else {"anyOf": ways}
    default = {} if key.default is None or dataclasses.is_dataclass(key.type) else {"default": key.default}
    default = {"default": "data"} if key.name == "root" else default
    return {"description": key.setting.about} | default | found


def _way(kind: Any, key: Key) -> dict[str, Any]:
    if kind is dict:
        return _object(key.section) if key.section else {"type": "object"}
    if key.entry is not None:
        table = _object(key.entry)
        return {"anyOf": [table, {"type": "array", "items": table}]}
    if typing.get_origin(kind) is list:
        items = _way(typing.get_args(kind)[0], key)
        array = {"type": "array", "items": items}
        return {"anyOf": [items, array]} if items == {"type": "string"} else array
    if kind is str:
        return {"type": "string"} | ({"enum": key.setting.options} if key.setting.options else {})
    if kind is bool:
        return {"type": "boolean"}
    choices = {"enum": list(key.setting.choices)} if key.setting.choices else {}
    return {"type": "integer" if kind is int else "number"} | _limits(key.setting) | choices


def _limits(setting: Setting) -> dict[str, float]:
    names = {
        "minimum": setting.ge,
        "exclusiveMinimum": setting.gt,
        "maximum": setting.le,
        "exclusiveMaximum": setting.lt,
    }
    return {name: limit for name, limit in names.items() if limit is not None}


def completions(incomplete: str) -> list[tuple[str, str]]:
    """Completions after `regard train RECIPE `: keys with their description, and the choices after `KEY=`."""
    name, equals, start = incomplete.partition("=")
    every = dict(_leaves())
    if equals:
        key = every.get(name)
        options = [] if key is None else ["true", "false"] if key.types == (bool,) else key.setting.options
        return [(f"{name}={option}", "") for option in options if option.startswith(start)]
    # Sections first: `model.` has a hundred keys.
    depth = incomplete.count(".")
    found: dict[str, str] = {}
    for path, key in every.items():
        if path.startswith(incomplete) and not path.startswith("tiny"):
            if path.count(".") > depth:
                found[".".join(path.split(".")[: depth + 1]) + "."] = "section"
            else:
                found[f"{path}="] = key.setting.about
    return list(found.items())
