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
    sources, targets = carried(source), carried(target)
    known = ((s, t) for s, t in links if s < len(sources) and t < len(targets))
    return sorted({(s, t) for old, new in known for s in sources[old] for t in targets[new]})


def chained(parts: Sequence[tuple[str, str, Links | None]]) -> tuple[str, Links | None]:
    """Texts with their translations and links, one after the other, as one translation with its links."""
    text = "".join(target for _, target, _ in parts)
    if any(links is None for _, _, links in parts):
        return text, None
    sources, targets = Words("".join(source for source, _, _ in parts)), Words(text)
    found: set[tuple[int, int]] = set()
    before = behind = 0
    for source, target, links in parts:
        # Where parts touch without a space between them, the last word of one is part of the first of the next.
        first, then = Words(source), Words(target)
        found |= {
            (
                sources.within(before + first.starts[s], before + first.ends[s])[0],
                targets.within(behind + then.starts[t], behind + then.ends[t])[0],
            )
            for s, t in links or []
            if s < len(first) and t < len(then)
        }
        before, behind = before + len(source), behind + len(target)
    return text, sorted(found)
