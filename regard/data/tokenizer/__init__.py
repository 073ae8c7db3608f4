"""Tokenizers: a kind in a recipe is a file here. These functions find the kind, and what it may be told."""

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


def settled(given: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's `[tokenizer]` with every key of its kind; one that the kind does not take is refused."""
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
    """Learns a tokenizer of the kind and with the keys a recipe's `[tokenizer]` names."""
    keys = {name: value for name, value in settled(options).items() if name != "path"}
    return maker(keys.pop("kind")).train(lines, seed=seed, **keys)


def from_files(files: Mapping[str, bytes]) -> Tokenizer:
    """The tokenizer of a model folder, whose files say of which kind it is."""
    if "tokenizer.json" not in files:
        return maker("subword").from_files(files)
    try:
        return maker(json.loads(files["tokenizer.json"])["kind"]).from_files(files)
    except (AttributeError, ValueError, LookupError, TypeError, RecursionError):
        raise UserError("tokenizer.json is damaged; take another copy of the model") from None
