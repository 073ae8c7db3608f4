"""Words between white space, and links between the words of two texts that follow what is done to the texts."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

Links = list[tuple[int, int]]
"""(source word, target word), counted from 0 over the words between white space."""


class Said(NamedTuple):
    """A translation; which of its words come from which of the source's, where that is known."""

    text: str
    alignment: Links | None = None


Slices = Sequence[tuple[str, str]]
"""A text and what became of it, slice for slice: a slice is the same in both, or was replaced as a whole."""

MOST_LINKED = 8
"""Words that one word may stand for, as a name does for a placeholder of many; the first and last of them count."""

_WORD = re.compile(r"\S+")


class Words:
    """Where the words of a text begin and end."""

    def __init__(self, text: str):
        spans = [word.span() for word in _WORD.finditer(text)]
        self.starts, self.ends = [start for start, _ in spans], [end for _, end in spans]

    def __len__(self) -> int:
        return len(self.starts)

    def within(self, start: int, end: int) -> range:
        """The words that stand between two places, also those of which only a part does."""
        return range(bisect_right(self.ends, start), bisect_left(self.starts, end)) if start < end else range(0)


def carried(slices: Slices) -> list[list[int]]:
    """For each word of a text, the words that it became."""
    old, new = Words("".join(before for before, _ in slices)), Words("".join(after for _, after in slices))
    found: list[list[int]] = [[] for _ in range(len(old))]
    place = became = 0
    for before, after in slices:
        for word in old.within(place, place + len(before)):
            start, end = max(old.starts[word] - place, 0), min(old.ends[word] - place, len(before))
            found[word] += (
                new.within(became + start, became + end) if before == after else new.within(became, became + len(after))
            )
        place, became = place + len(before), became + len(after)
    return found


def moved(links: Links, source: Slices, target: Slices) -> Links:
    """Links between two texts as links between what they became. (Those of words that are not there are left out.)"""
    sources, targets = ([_few(words) for words in carried(slices)] for slices in (source, target))
    known = ((s, t) for s, t in links if s < len(sources) and t < len(targets))
    return sorted({(s, t) for old, new in known for s in sources[old] for t in targets[new]})


def _few(words: list[int]) -> list[int]:
    """The first and last of many words: linking each of them to each of as many others would have no bound."""
    return words if len(words) <= MOST_LINKED else words[: MOST_LINKED // 2] + words[-MOST_LINKED // 2 :]


def chained(parts: Sequence[tuple[str, str, Links | None]]) -> tuple[str, Links | None]:
    """Texts with their translations and links, one after the other, as one translation with its links."""
    text = "".join(target for _, target, _ in parts)
    if any(links is None for _, _, links in parts):
        return text, None
    found: set[tuple[int, int]] = set()
    sources, targets = _Counted(), _Counted()
    for source, target, links in parts:
        first, behind = sources.add(source), targets.add(target)
        lengths = sources.count - first, targets.count - behind
        found |= {(first + s, behind + t) for s, t in links or [] if s < lengths[0] and t < lengths[1]}
    return text, sorted(found)


class _Counted:
    """How many words a text has that grows part by part."""

    def __init__(self) -> None:
        self.count = 0
        self._in_word = False

    def add(self, part: str) -> int:
        """The number of the part's first word: the last one before it, where no space stands between them."""
        first = self.count - (self._in_word and part[:1].strip() != "")
        self.count = first + len(part.split())
        if part:
            self._in_word = not part[-1].isspace()
        return first
