"""Writes plain values as TOML, which the standard library only reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def toml_text(tree: Mapping[str, Any]) -> str:
    """A TOML document of nested tables of strings, numbers, booleans and lists."""
    return "\n".join(_lines(tree, [])) + "\n"


def _lines(tree: Mapping[str, Any], path: list[str]) -> list[str]:
    """The lines of a table: its own values first, then its tables under their headings, as TOML requires."""
    own = {key: value for key, value in tree.items() if not isinstance(value, dict) and not _is_tables(value)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in own.items()]
    for key, value in tree.items():
        below = [*path, key]
        name = ".".join(map(_key, below))
        if isinstance(value, dict):
            lines += ["", f"[{name}]", *_lines(value, below)]
        elif _is_tables(value):
            for table in value:
                lines += ["", f"[[{name}]]", *_lines(table, below)]
    return lines


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        one_line = "[" + ", ".join(map(_value, value)) + "]"
        return one_line if len(one_line) < 100 else "[\n" + "".join(f"    {_value(item)},\n" for item in value) + "]"
    if isinstance(value, str):
        # All JSON escapes are valid TOML; TOML also requires DEL to be escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)
