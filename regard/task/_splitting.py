"""Splits texts that are too long for a model: at sentences, else at clauses or words."""

from __future__ import annotations

import re
from collections.abc import Callable

from regard.task._sentence_boundaries import sentences

CLAUSE_OR_WORD = [r"(?<=[;:,،؛；，])\s+", r"\s+"]


def split_long(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Parts that each fit, in order; joined by spaces they give the text, up to white space at the cuts."""
    return [text] if fits(text) else [part for sentence in sentences(text) for part in _halved(sentence, fits)]


def _halved(text: str, fits: Callable[[str], bool]) -> list[str]:
    if len(text) < 2 or fits(text):
        return [text]
    return [part for half in _halves(text) for part in _halved(half, fits)]


def _halves(text: str) -> list[str]:
    """Splits at the clause, else the word boundary nearest to the middle, else in the middle."""
    middle = len(text) // 2
    for boundary in CLAUSE_OR_WORD:
        cuts = [cut for cut in re.finditer(boundary, text) if cut.start() > 0 and cut.end() < len(text)]
        if cuts:
            cut = min(cuts, key=lambda cut: abs(cut.start() - middle))
            return [text[: cut.start()], text[cut.end() :]]
    return [text[:middle], text[middle:]]
