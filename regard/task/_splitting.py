"""Cuts a text too long for a model where it hurts least: after a sentence, a clause, a word, then anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable

PLACES = [r"(?<=[.!?…。！？])\s+", r"(?<=[;:,،؛；，])\s+", r"\s+"]


def split_long(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Parts that each fit, in order; joined by spaces they are the text again, up to the white space at the cuts."""
    if len(text) < 2 or fits(text):
        return [text]
    middle = len(text) / 2
    for place in PLACES:
        cuts = [m for m in re.finditer(place, text) if m.start() > 0 and m.end() < len(text)]
        if cuts:
            cut = min(cuts, key=lambda m: abs(m.start() - middle))
            left, right = text[: cut.start()], text[cut.end() :]
            break
    else:
        left, right = text[: len(text) // 2], text[len(text) // 2 :]
    return split_long(left, fits) + split_long(right, fits)
