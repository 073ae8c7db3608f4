"""Word alignments, and how they change when the aligned texts are edited. Words are separated by white space."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from regard.text.word_confidences import Confidences

Links = list[tuple[int, int]]
"""Pairs (source word, target word), counted from 0."""


class AlignedText(NamedTuple):
    """A translation and, if known, its word alignment with the source and the confidences of its words."""

    text: str
    alignment: Links | None = None
    confidences: Confidences | None = None


Slices = Sequence[tuple[str, str]]
"""An edit of a text as (before, after) slices: a slice is unchanged, or replaced as a whole."""

MAX_LINKED = 8
"""Words that one word may map to, as a placeholder does; of more, the first and the last count."""

_WORD = re.compile(r"\S+")


class Words:
    """Start and end of each word of a text."""

    def __init__(self, text: str):
        spans = [word.span() for word in _WORD.finditer(text)]
        self.starts, self.ends = [start for start, _ in spans], [end for _, end in spans]

    def __len__(self) -> int:
        return len(self.starts)

    def within(self, start: int, end: int) -> range:
        """The words that overlap the characters start to end."""
        return range(bisect_right(self.ends, start), bisect_left(self.starts, end)) if start < end else range(0)


def word_mapping(slices: Slices) -> list[list[int]]:
    """For each word before an edit, the words it becomes."""
    old, new = Words("".join(before for before, _ in slices)), Words("".join(after for _, after in slices))
    found: list[list[int]] = [[] for _ in range(len(old))]
    old_offset = new_offset = 0
    for before, after in slices:
        for word in old.within(old_offset, old_offset + len(before)):
            start, end = max(old.starts[word] - old_offset, 0), min(old.ends[word] - old_offset, len(before))
            found[word] += (
                new.within(new_offset + start, new_offset + end)
                if before == after
                else new.within(new_offset, new_offset + len(after))
            )
        old_offset, new_offset = old_offset + len(before), new_offset + len(after)
    return found


def map_links(links: Links, source: Slices, target: Slices) -> Links:
    """The links between two texts after both were edited. Links to words that do not exist are dropped."""
    sources, targets = ([_first_and_last(words) for words in word_mapping(slices)] for slices in (source, target))
    known = ((s, t) for s, t in links if s < len(sources) and t < len(targets))
    return sorted({(s, t) for old, new in known for s in sources[old] for t in targets[new]})


def _first_and_last(words: list[int]) -> list[int]:
    """Bounds the number of links: many words linked to many others would be quadratic."""
    return words if len(words) <= MAX_LINKED else words[: MAX_LINKED // 2] + words[-MAX_LINKED // 2 :]


def concatenate(parts: Sequence[tuple[str, str, Links | None]]) -> tuple[str, Links | None]:
    """Joins (source, target, links) parts into one translation with its links."""
    text = "".join(target for _, target, _ in parts)
    if any(links is None for _, _, links in parts):
        return text, None
    found: set[tuple[int, int]] = set()
    sources, targets = _WordCounter(), _WordCounter()
    for source, target, links in parts:
        first_source, first_target = sources.add(source), targets.add(target)
        lengths = sources.count - first_source, targets.count - first_target
        found |= {(first_source + s, first_target + t) for s, t in links or [] if s < lengths[0] and t < lengths[1]}
    return text, sorted(found)


class _WordCounter:
    """Counts the words of a text that is built part by part."""

    def __init__(self) -> None:
        self.count = 0
        self._in_word = False

    def add(self, part: str) -> int:
        """Index of the part's first word, which continues the previous word if no space separates them."""
        first = self.count - (self._in_word and part[:1].strip() != "")
        self.count = first + len(part.split())
        if part:
            self._in_word = not part[-1].isspace()
        return first
