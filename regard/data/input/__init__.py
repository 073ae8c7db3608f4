"""Inputs: raw examples of one kind (text, image, sound, clip, series) to the arrays a stem reads."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import Parameter

from regard import registry
from regard.errors import UserError, suggestion

__all__ = ["check_keys"]


def check_keys(names: Iterable[str], kind: str) -> None:
    """Refuses keys of `[input]` that this kind of input does not take; those of text are in `[tokenizer]`."""
    fit = registry.factory("data/input", kind).fit  # type: ignore[attr-defined]
    known = [n for n, p in registry.keywords(fit).items() if p.kind is Parameter.KEYWORD_ONLY and n != "seed"]
    for name in names:
        if not known:
            raise UserError(f"input: this model reads {kind}, which has no key '{name}'; leave it out")
        if name not in known:
            raise UserError(f"input: no key '{name}'{suggestion(name, known)}")
