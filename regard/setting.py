"""The declaration of a recipe key: type, range, choices and a one-sentence description.

`recipe.py` and `part_settings.py` declare every key as `Annotated[type, Setting(...)]`. Validation, error messages, the
reference page, the editor schema and shell completion are derived from that declaration.
"""

from __future__ import annotations

import functools
import math
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any

from regard import registry
from regard.errors import UserError, suggestion

ALIASES = {"start_from": "from", "from_": "from"}
"""Fields whose key in a recipe is a Python keyword."""
NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
LISTS = {str: "a list of texts", int: "a list of whole numbers", float: "a list of numbers"}


@dataclass(frozen=True)
class Setting:
    about: str
    """The description, one sentence."""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    choices: tuple[str | int, ...] = ()
    family: str = ""
    """The choices are the kinds in this folder, such as `layers/cell`."""
    keys: type | None = None
    """A TypedDict with the keys of a table. A string instead of a table is its `kind`."""

    @property
    def range(self) -> str:
        """The range in words, such as `of at least 0 and below 1`; empty without limits."""
        if self.ge is not None and self.le is not None:
            return f"from {_number(self.ge)} to {_number(self.le)}"
        limits = [("of at least", self.ge), ("above", self.gt), ("at most", self.le), ("below", self.lt)]
        return " and ".join(f"{words} {_number(limit)}" for words, limit in limits if limit is not None)

    @property
    def options(self) -> list[str]:
        return registry.kinds(self.family) if self.family else list(map(str, self.choices))

    def allows(self, number: float) -> bool:
        return (
            math.isfinite(number)
            and (self.ge is None or number >= self.ge)
            and (self.gt is None or number > self.gt)
            and (self.le is None or number <= self.le)
            and (self.lt is None or number < self.lt)
        )


@dataclass(frozen=True)
class Key:
    """One key of a recipe, or of a section of it."""

    name: str
    type: Any
    setting: Setting
    default: Any = None
    """None where the default depends on the kind of a part."""

    @property
    def types(self) -> tuple[Any, ...]:
        """The allowed types; `dict` for a table of keys."""
        union = typing.get_origin(self.type) in (typing.Union, types.UnionType)
        every = typing.get_args(self.type) if union else (self.type,)
        return tuple(dict if _is_table(each) else each for each in every)

    @property
    def section(self) -> type | None:
        """The class that declares the keys of a table, or of each table in a list; None for a value or a table of any
        keys."""
        if self.entry is not None:
            return self.entry
        return self.type if is_dataclass(self.type) and isinstance(self.type, type) else self.setting.keys

    @property
    def entry(self) -> type | None:
        """The class that declares the keys of each table, if the value is a list of tables."""
        inner = typing.get_args(self.type) if typing.get_origin(self.type) is list else ()
        return inner[0] if inner and is_dataclass(inner[0]) and isinstance(inner[0], type) else None

    @property
    def wanted(self) -> str:
        """Type and range in words, for error messages and the reference page."""
        return " or ".join(map(_named, self.types)) + (f" {self.setting.range}" if self.setting.range else "")


@functools.cache
def declared(section: type) -> dict[str, Key]:
    """The keys that a dataclass or TypedDict declares, by their name in a recipe."""
    defaults = {}
    if is_dataclass(section):
        for item in fields(section):
            defaults[item.name] = item.default_factory() if item.default_factory is not MISSING else item.default
    found = {}
    for field, hint in typing.get_type_hints(section, include_extras=True).items():
        name = ALIASES.get(field, field)
        if typing.get_origin(hint) is not Annotated:
            raise TypeError(f"{section.__name__}.{field}: declare it as Annotated[type, Setting(...)]")
        kind, setting = typing.get_args(hint)[:2]
        found[name] = Key(name, kind, setting, defaults.get(field))
    return found


def all_keys(section: type, under: str = "") -> Iterator[tuple[str, Key]]:
    """Every key below a section with its dotted path; a section comes before its keys."""
    for name, key in declared(section).items():
        path = f"{under}.{name}" if under else name
        yield path, key
        if key.section:
            yield from all_keys(key.section, path)


def check(key: Key, value: Any, where: str) -> Any:
    """The value as the key's type; raises a UserError if it does not fit. Tables are checked by the caller."""
    for kind in key.types:
        if kind is not dict and (found := _as(kind, value, key.setting)) is not None:
            _check_choice(key.setting, found, where)
            return float(found) if kind is float else found
    raise UserError(f"{where}: wants {key.wanted}, given {shown(value)}")


def _as(kind: Any, value: Any, setting: Setting) -> Any:
    """The value as `kind`, or None if it has another type. `True` is not a number."""
    if typing.get_origin(kind) is list:
        (inner,) = typing.get_args(kind)
        given = [value] if inner is str and isinstance(value, str) else value
        items = [_as(inner, item, setting) for item in given] if isinstance(given, list | tuple) else [None]
        return None if any(item is None for item in items) else items
    if kind in (int, float):
        number = type(value) is int or (kind is float and type(value) is float)
        return value if number and setting.allows(value) else None
    return value if type(value) is kind else None


def _check_choice(setting: Setting, value: Any, where: str) -> None:
    if setting.family and isinstance(value, str) and not registry.is_kind(setting.family, value):
        raise UserError(f"{where}: no kind '{value}'{suggestion(value, setting.options)}")
    if setting.choices and value not in setting.choices:
        *most, last = map(str, setting.choices)
        raise UserError(f"{where}: no {shown(value)}; use {', '.join(most)} or {last}")


def shown(value: Any) -> str:
    """A value for an error message: short, and quoted if it is a string."""
    text = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_table(kind: Any) -> bool:
    return is_dataclass(kind) or typing.get_origin(kind) in (dict, Mapping) or kind is dict


def _named(kind: Any) -> str:
    if typing.get_origin(kind) is list:
        return LISTS.get(typing.get_args(kind)[0], "a list of tables")
    return "a table of keys" if kind is dict else NAMES[kind]


def _number(limit: float) -> str:
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"
