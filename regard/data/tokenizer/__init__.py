"""Tokenizers: a kind in a recipe is a file here. These functions train, load and check them by kind."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from regard import part_settings, registry
from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError, suggestion
from regard.setting import declared


def maker(kind: str) -> type[Tokenizer]:
    return cast(type[Tokenizer], registry.factory("data/tokenizer", kind, "tokenizer.kind"))


def resolved(given: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's `[tokenizer]` with the defaults of its kind filled in; unknown keys are refused."""
    options = dict(given)
    kind = options.pop("kind", "subword")
    known = {n: p for n, p in registry.keywords(maker(kind).train).items() if n not in ("lines", "seed")}
    for name in options:
        if name not in known and name != "path":
            raise UserError(f"tokenizer: no key '{name}'{suggestion(name, [*known, 'kind', 'path'])}")
    undeclared = {name: value for name, value in options.items() if name not in declared(part_settings.Tokenizer)}
    registry.check_types(undeclared, known, "tokenizer")
    defaults = {n: p.default for n, p in known.items() if p.default is not inspect.Parameter.empty}
    return {"kind": kind, **defaults, **options}


def train(options: Mapping[str, Any], lines: Iterable[str], seed: int) -> Tokenizer:
    """Trains a tokenizer from a recipe's `[tokenizer]` table."""
    keys = {name: value for name, value in resolved(options).items() if name != "path"}
    return maker(keys.pop("kind")).train(lines, seed=seed, **keys)


def from_files(files: Mapping[str, bytes]) -> Tokenizer:
    """The tokenizer of a model folder; its files state the kind."""
    if "tokenizer.json" not in files:
        return maker("subword").from_files(files)
    try:
        return maker(json.loads(files["tokenizer.json"])["kind"]).from_files(files)
    except (AttributeError, ValueError, LookupError, TypeError, RecursionError):
        raise UserError("tokenizer.json is damaged; take another copy of the model") from None
