"""Checks of a recipe against the kind of input that its model reads: keys of `[input]`, and examples."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import Parameter
from typing import Any

import numpy as np

from regard import registry
from regard.data.input.sound import Sound
from regard.errors import UserError, suggestion


def check_keys(names: Iterable[str], kind: str) -> None:
    """Refuses keys of `[input]` that this kind of input does not take; those of text are in `[tokenizer]`."""
    fit = registry.factory("data/input", kind).fit  # type: ignore[attr-defined]
    known = [n for n, p in registry.keywords(fit).items() if p.kind is Parameter.KEYWORD_ONLY and n != "seed"]
    for name in names:
        if not known:
            raise UserError(f"input: this model reads {kind}, which has no key '{name}'; leave it out")
        if name not in known:
            raise UserError(f"input: no key '{name}'{suggestion(name, known)}")


def check_kind(raw: Any, kind: str) -> None:
    """Refuses examples of another kind than the model's stem reads, naming the stems that read them."""
    found = kind_of(raw)
    if found and found != kind:
        stems = [stem for stem in registry.kinds("stem") if registry.factory("stem", stem).reads == found]  # type: ignore[attr-defined]
        fitting = " or ".join(f"model.stem={stem}" for stem in stems)
        raise UserError(f"model.stem: the model reads {kind}, but the examples are of the kind {found}; use {fitting}")


def kind_of(raw: Any) -> str:
    """The kind of input that reads this raw example (see `Raw` in _base.py); empty where it is none of ours."""
    if isinstance(raw, np.ndarray):
        return {2: "series", 3: "image", 4: "clip"}.get(raw.ndim, "")
    return "sound" if isinstance(raw, Sound) else "text" if isinstance(raw, (str, list)) else ""
