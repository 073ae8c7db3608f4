"""STAND-IN by the lead until helper TEXT's file is here: overwrite it."""

from __future__ import annotations

from collections.abc import Collection


def warm() -> None:
    pass


def detect(text: str, among: Collection[str] = ()) -> list[tuple[str, float]]:
    if not any(map(str.isalpha, text)):
        return [("en", 0.0)]
    french = sum(word in {"je", "le", "la", "les", "est", "bonjour", "et", "un", "une"} for word in text.lower().split())
    return [("fr", 90.0)] if french else [("en", 90.0)]
