"""Plain values as TOML text: the standard library reads TOML but does not write it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def toml_text(tree: Mapping[str, Any]) -> str:
    """A document of a nested table of texts, numbers, booleans and lists."""
    return "\n".join(_lines(tree, [])) + "\n"


def _lines(tree: Mapping[str, Any], path: list[str]) -> list[str]:
    """A table as lines: its own values first, then the tables in it under headings, as TOML wants it."""
    lines = [f"{_key(key)} = {_value(value)}" for key, value in tree.items() if not isinstance(value, dict)]
    for key, value in tree.items():
        if isinstance(value, dict):
            below = [*path, key]
            lines += ["", f"[{'.'.join(map(_key, below))}]", *_lines(value, below)]
    return lines


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        one_line = "[" + ", ".join(map(_value, value)) + "]"
        return one_line if len(one_line) < 100 else "[\n" + "".join(f"    {_value(item)},\n" for item in value) + "]"
    if isinstance(value, str):
        # JSON's escapes are all TOML's; only DEL must be escaped here and need not be there.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)
