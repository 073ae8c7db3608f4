"""Cuts a text too long for a model where it hurts least: into its sentences, and those after a clause or a word."""

from __future__ import annotations

import re
from collections.abc import Callable

SENTENCE_END = r"(?<=[.!?…。！？])\s+"
PLACES = [r"(?<=[;:,،؛；，])\s+", r"\s+"]


def split_long(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Parts that each fit, in order; joined by spaces they are the text again, up to the white space at the cuts."""
    if len(text) < 2 or fits(text):
        return [text]
    sentences = [part for part in re.split(SENTENCE_END, text) if part]
    if len(sentences) > 1:
        return [part for sentence in sentences for part in split_long(sentence, fits)]
    left, right = _halves(text)
    return split_long(left, fits) + split_long(right, fits)


def _halves(text: str) -> tuple[str, str]:
    """Cut at the best kind of place there is, as near the middle as it occurs; in the middle where there is none."""
    middle = len(text) // 2
    for place in PLACES:
        cuts = [cut for cut in re.finditer(place, text) if cut.start() > 0 and cut.end() < len(text)]
        if cuts:
            cut = min(cuts, key=lambda cut: abs(cut.start() - middle))
            return text[: cut.start()], text[cut.end() :]
    return text[:middle], text[middle:]
