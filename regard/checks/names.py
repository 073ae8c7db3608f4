"""A name is written otherwise than in the source text: Sarkozy, but Sakorzy in the translation.

Many names are adapted or translated (Londres, Italie, Parlement). So only one letter may differ, not at the end, and
not as spelling differs between languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from regard.checks._pair import Pair, folded, is_latin

FEWEST = 5
"""Letters of a name that is compared."""
_ENDS = 3
"""Letters at the end in which languages differ."""
_SPELLINGS = [frozenset(pair) for pair in ("ct", "ck", "iy", "sz", "vw", "uo", "ei", "ea", "ou", "fv", "ij", "bv")]
"""Letters that stand for each other in the words of related languages."""
_SILENT = frozenset("aehiouy")
"""Letters that a language adds to or leaves out of a word."""
_SENTENCE_START = re.compile(r"(?:^|[.!?…:\"“«„‘'(\[–—-])\s*$")
_WORD = re.compile(r"[^\W\d_]+")


def check(pair: Pair) -> Iterator[str]:
    if not (is_latin(pair.source) and is_latin(pair.target)):
        return
    names = _names(pair.source)
    written = {folded(word[0]) for word in _WORD.finditer(pair.target)}
    known = {folded(word[0]) for word in _WORD.finditer(pair.source)}
    others = {one: word for word in _names(pair.target) if (one := folded(word)) not in known and len(one) >= FEWEST}
    for name in dict.fromkeys(names):
        plain = folded(name)
        if len(plain) < FEWEST or plain in written:
            continue
        for other, shown in others.items():
            if _is_changed(plain, other):
                yield f"'{name}' of the source is written '{shown}'"
                break


def _names(text: str) -> list[str]:
    """Words with a capital that do not begin a sentence."""
    return [
        found[0]
        for found in _WORD.finditer(text)
        if found[0][0].isupper() and not _SENTENCE_START.search(text[max(0, found.start() - 4) : found.start()])
    ]


def _is_changed(name: str, other: str) -> bool:
    """Whether one letter is another one, is missing or is new, or two neighbours have changed places."""
    same = next((i for i, pair in enumerate(zip(name, other)) if pair[0] != pair[1]), min(len(name), len(other)))
    if same == 0 or max(len(name), len(other)) - same <= _ENDS:
        return False
    left, right = name[same:], other[same:]
    if left[1:] == right[1:]:
        return frozenset((left[0], right[0])) not in _SPELLINGS
    if left[1:] == right:
        return left[0] not in _SILENT
    if left == right[1:]:
        return right[0] not in _SILENT
    return left[2:] == right[2:] and left[:2] == right[1::-1]
