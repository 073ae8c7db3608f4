"""Follows the terms of a glossary through a translation: which words of it stand for a term of the source text.

A chain's last translator then puts the term's own translation where those words would be.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from regard.data.normalise import normalise, plain
from regard.glossary import Glossary, Term

if TYPE_CHECKING:
    from regard.task._translation import Translation

NEARLY = 0.5
"""The share of the largest attention from which on a neighbouring word belongs to a term, too."""
SHORT = 3
"""Letters of an article or a preposition."""
_EDGES = re.compile(r"^[\W_]+|[\W_]+$")


def calls_for_terms(glossary: Glossary, text: str) -> bool:
    return bool(glossary.occurrences(plain(normalise(text))))


def follow(glossary: Glossary, translation: Translation) -> Glossary:
    """The terms that a text has, as they are called in its translation: the words that attend most to them."""
    text = plain(normalise(translation.source))
    found: dict[str, Term] = {}
    if translation.attention is None:
        return Glossary(())
    words = plain(normalise(translation.text)).split()
    for wanted in glossary.wanted(text):
        for start, end in wanted.places:
            columns = range(text.count(" ", 0, start), text.count(" ", 0, end - 1) + 1)
            mass = translation.attention[: len(words), min(columns) : max(columns) + 1].sum(1)
            if not mass.size:
                continue
            first = last = best = int(mass.argmax())
            while first and mass[first - 1] >= NEARLY * mass.max():
                first -= 1
            while last + 1 < mass.size and mass[last + 1] >= NEARLY * mass.max():
                last += 1
            if phrase := _without_articles(words[first : last + 1], best - first):
                forms = tuple(form.text for form in wanted.forms if not form.at_start)
                found.setdefault(phrase, Term((phrase,), forms, wanted.mode))
    return Glossary(tuple(found.values()))


def _without_articles(words: list[str], best: int) -> str:
    """The words without short ones at the edges, which attend to the noun beside them, and without punctuation."""
    words = [_EDGES.sub("", word) for word in words]
    kept = [index for index, word in enumerate(words) if len(word) > SHORT or index == best]
    return " ".join(filter(None, words[kept[0] : kept[-1] + 1]))
