"""Recipes as TOML files: reading, command-line overrides, checks, writing.

A recipe is short: it names only what differs from the defaults (recipe.py). What is saved beside a model is complete.
Which keys of a free table a part takes, its constructor says (assemble.py). Nothing in a recipe is imported or run.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from regard.errors import UserError, suggestion
from regard.part_settings import PRESETS as PRESETS
from regard.recipe import Data as Data
from regard.recipe import Decoding as Decoding
from regard.recipe import Languages as Languages
from regard.recipe import Pairs as Pairs
from regard.recipe import Recipe as Recipe
from regard.recipe import Training as Training
from regard.recipe import data_root as data_root
from regard.regular_files import read_regular
from regard.setting import ALIASES, Key, all_keys, check, declared, shown
from regard.toml_text import toml_text

KINDS = {("tokenizer", "kind"), ("data", "format", "kind")}
LONGEST_TEXT = 1 << 17
MOST_DOTS = 100
"""Limits on the size of a recipe and the dots per line: the TOML parser takes quadratic time in the parts of a key."""


def shipped_recipes() -> dict[str, Path]:
    """The recipes that ship with the package: in the package if installed, else in the repository."""
    here = Path(__file__).parent
    return {path.stem: path for folder in (here.parent, here) for path in sorted(folder.glob("recipes/*.toml"))}


def read_recipe(path_or_name: str | Path) -> Recipe:
    """A recipe from a file, a run or model folder, or a shipped one by name."""
    path = Path(path_or_name)
    if path.is_dir() and (path / "recipe.toml").is_file():
        path = path / "recipe.toml"
    if path.is_dir() or not path.exists():
        path = _shipped(path)
    try:
        text = read_regular(path, 4 * LONGEST_TEXT).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text: {error}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    return recipe_from_toml(text, where=str(path))


def _shipped(path: Path) -> Path:
    shipped = shipped_recipes()
    if path.parent == Path(".") and path.name.removesuffix(".toml") in shipped:
        return shipped[path.name.removesuffix(".toml")]
    beside = [str(other) for other in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    near = difflib.get_close_matches(str(path), [*shipped, *beside], n=1)
    raise UserError(f"no recipe '{path}'; " + (f"did you mean '{near[0]}'?" if near else "`regard recipes` lists them"))


def recipe_from_toml(text: str, where: str = "recipe") -> Recipe:
    """A recipe from TOML text; `where` names the file in error messages."""
    try:
        return recipe_from_dict(parse_toml(text))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except RecursionError:
        raise UserError(f"{where}: its tables are nested too deeply") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Parses TOML text in bounded time."""
    if len(text) > LONGEST_TEXT:
        raise UserError(f"longer than {LONGEST_TEXT} characters; this is not a recipe")
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MOST_DOTS:
            raise UserError(f"more than {MOST_DOTS} dots in line {number}; write long lists one item a line")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number too long to be one
        raise UserError(f"not valid TOML: {error}") from None


def recipe_from_dict(tree: Mapping[str, Any]) -> Recipe:
    """A recipe from plain values; refuses unknown keys and values of a wrong type."""
    recipe: Recipe = _section(Recipe, tree, "")
    _section(Recipe, {name: value for name, value in recipe.tiny.items() if name != "beats"}, "tiny")  # checked alike
    return recipe


def apply_overrides(recipe: Recipe, overrides: Iterable[str]) -> Recipe:
    """A new recipe with `key.key=value` settings applied. Values are TOML, or else plain text.

    Another kind of tokenizer or data format replaces the whole table.
    """
    tree = _plain(recipe)
    for keys, value in sorted(map(_setting, overrides), key=lambda setting: tuple(setting[0]) not in KINDS):
        node: Any = tree
        for depth, key in enumerate(keys[:-1], start=1):
            path = ".".join(keys[:depth])
            node[key] = _as_table(path, node.get(key, {}))
            node = node[key]
            if isinstance(node, list):
                node = _entries(path, node, keys[depth])
            if not isinstance(node, dict):
                raise UserError(f"{'.'.join(keys)}: '{path}' is a value and has no keys")
        if tuple(keys) in KINDS and node.get("kind") != value:
            node.clear()  # keys of the previous kind do not apply
        node[keys[-1]] = value
    return recipe_from_dict(tree)


def _as_table(path: str, value: Any) -> Any:
    """The value of a key that takes a kind or a table, as a table."""
    if isinstance(value, _Unparsed):
        value = _toml_value(value)
    if isinstance(value, str) and any(other == path and key.setting.keys for other, key in all_keys(Recipe)):
        return {"kind": value}
    return value


def _entries(path: str, tables: list[Any], following: str) -> Any:
    """A list of tables as a table of its entries by number, so that a setting can name one."""
    if not any(other == path and key.entry for other, key in all_keys(Recipe)):
        return tables
    if not following.isdecimal():
        if not tables:
            tables.append({})  # the keys of a first entry
        if len(tables) > 1:
            raise UserError(f"{path}: has {len(tables)} entries; say which, as in {path}.1.{following}")
        return tables[0]
    if not 1 <= int(following) <= len(tables):
        raise UserError(f"{path}.{following}: there are {len(tables)} entries, counted from 1")
    return _Numbered(tables)


def tiny_form(recipe: Recipe) -> Recipe:
    """The recipe with the changes of its `[tiny]` section, on synthetic data."""
    if not recipe.tiny:
        raise UserError("tiny: this recipe has no tiny form; train it on its data")
    tree, changes = _plain(recipe), _tree(recipe.tiny, "tiny")
    changes.pop("beats", None)
    for name, value in tree["data"].items():
        if isinstance(value, list) or name.startswith("hold_out"):
            tree["data"][name] = _plain(Recipe())["data"][name]
    # Keys of the original kind do not apply to another.
    if "format" in changes.get("data", {}):
        tree["data"]["format"] = {}
    if "kind" in changes.get("tokenizer", {}):
        tree["tokenizer"] = {}
    tree["tiny"] = {}
    return recipe_from_dict(_merged(tree, changes))


def _merged(tree: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    for key, value in changes.items():
        inner = tree.get(key)
        tree[key] = _merged(inner, value) if isinstance(value, dict) and isinstance(inner, dict) else value
    return tree


def to_toml(recipe: Recipe) -> str:
    """The complete recipe as TOML; `recipe_from_toml` restores it."""
    tree = _plain(recipe_from_dict(_plain(recipe)))
    return toml_text(tree)


# From plain values to typed sections.


class _Numbered(dict[str, Any]):
    """The entries of a list of tables by their number; what is set in one is set in the list."""

    def __init__(self, tables: list[dict[str, Any]]) -> None:
        super().__init__({str(number): table for number, table in enumerate(tables, 1)})


class _Unparsed(str):
    """The text of an override; how it is parsed depends on the type of its key."""


def _setting(text: str) -> tuple[list[str], _Unparsed]:
    name, equals, value = text.partition("=")
    keys = [key.strip() for key in name.split(".")]
    if not equals or not all(keys):
        raise UserError(f"'{text}' is not a setting; write key=value, for example training.steps=200")
    return keys, _Unparsed(value.strip())


def _toml_value(text: str) -> Any:
    """The text parsed as a TOML value, or the text itself if it is not one."""
    try:
        tree = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return str(text)
    value = tree["value"]
    return str(text) if len(tree) > 1 or isinstance(value, (datetime.date, datetime.time)) else value


def _section(kind: Any, tree: Mapping[str, Any], where: str) -> Any:
    keys = declared(kind)
    fields = {ALIASES.get(item.name, item.name): item.name for item in dataclasses.fields(kind)}
    given = {}
    for name, value in tree.items():
        if name not in keys:
            raise UserError(f"{where or 'recipe'}: no key '{name}'{suggestion(name, keys)}")
        given[fields.get(name, name)] = _typed(keys[name], value, f"{where}.{name}" if where else name)
    return kind(**given)


def _typed(key: Key, value: Any, where: str) -> Any:
    if isinstance(value, _Unparsed):
        parsed = _toml_value(value)
        # On a command line, a name such as 2024 needs no quotes if the key is a string.
        plain = key.types[0] in (str, list[str]) and not isinstance(parsed, str | list | dict)
        value = str(value) if plain else parsed
    if key.entry is not None:
        tables = [value] if isinstance(value, Mapping) else value
        if not isinstance(tables, list | tuple) or not all(isinstance(item, Mapping) for item in tables):
            raise UserError(f"{where}: wants {key.wanted}, given {shown(value)}")
        names = [f"{where}.{number}" if len(tables) > 1 else where for number in range(1, len(tables) + 1)]
        return [_section(key.entry, item, name) for item, name in zip(tables, names)]
    if isinstance(value, Mapping) and dict in key.types:
        if dataclasses.is_dataclass(key.type):
            return _section(key.type, value, where)
        return check_table(key.setting.keys, value, where) if key.setting.keys else _tree(value, where)
    return _tree(check(key, value, where), where)


def check_table(keys: type, table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A copy of a free table after checking the type and range of its declared keys."""
    known = declared(keys)
    copy = _tree({name: 0 if name in known else value for name, value in table.items()}, where)
    for name in copy.keys() & known.keys():
        copy[name] = _typed(known[name], table[name], f"{where}.{name}")
    return copy


def _tree(value: Any, where: str) -> Any:
    """A deep copy of plain values; refuses values that TOML cannot represent or that no setting allows."""
    if isinstance(value, _Unparsed):
        value = _toml_value(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or not key:
                raise UserError(f"{where}: {key!r} is not a key")
            _tree(key, where)
        return {key: _tree(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tree(item, where) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise UserError(f"{where}: a whole number of {value.bit_length()} bits is too large")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{where}: wants a finite number, given {value}")
    if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        raise UserError(f"{where}: {value!r} is not valid Unicode text")
    if not isinstance(value, (str, int, float, bool)):
        raise UserError(f"{where}: {shown(value)} is not text, a number, true, false, a list or a table")
    return value


# From typed sections to text.


def _plain(recipe: Recipe) -> dict[str, Any]:
    def named(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {ALIASES.get(key, key): value for key, value in pairs}

    return dataclasses.asdict(recipe, dict_factory=named)
