"""Where in a translation the tags of its sentence go: each element around the words that its own words became.

Every tag is written once, and they nest as they did. Where words of an element are scattered over the translation it
takes the longest run of them. What holds no words (an image) follows the word that it followed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from regard.serving.text.alignment import AlignedText, Links, Words
from regard.serving.text.untranslatable import PRIVATE_CHARACTERS


class Tag(NamedTuple):
    """A tag of a sentence."""

    kind: str
    """`open`, `close` or `void`."""
    raw: str
    place: int
    """How many characters of the sentence stand before it."""


@dataclass
class _Element:
    opening: str
    start: int
    end: int = -1
    closing: str = ""
    inner: list[_Element] = field(default_factory=list)


_Run = tuple[int, int]
"""Words of the translation: the first, and the one behind the last."""


class _Span(NamedTuple):
    """The words that an element is given, and where it begins and ends in the text of the translation."""

    first: int
    last: int
    start: int
    end: int


def placed(text: str, tags: Sequence[Tag], said: AlignedText, shown: Callable[[str], str]) -> str:
    """A translation with the tags of its sentence, which are balanced. `shown` writes its text, part by part."""
    placing = _Placing(text, said, shown)
    whole = _Span(0, len(placing.target), 0, len(said.text))
    return placing.written(_tree(tags, len(text)), whole)


def _tree(tags: Sequence[Tag], end: int) -> _Element:
    root = _Element("", 0, end)
    above = [root]
    for tag in tags:
        if tag.kind == "close":
            element = above.pop()
            element.end, element.closing = tag.place, tag.raw
        else:
            element = _Element(tag.raw, tag.place, tag.place)
            above[-1].inner.append(element)
            if tag.kind == "open":
                above.append(element)
    return root


class _Placing:
    def __init__(self, text: str, said: AlignedText, shown: Callable[[str], str]):
        self.text, self.said, self.shown = text, said.text, shown
        self.source, self.target = Words(text), Words(said.text)
        self.links: list[list[int]] = [[] for _ in range(len(self.source))]
        for word, became in _diagonal(len(self.source), len(self.target)) if said.alignment is None else said.alignment:
            if 0 <= word < len(self.source) and 0 <= became < len(self.target):
                self.links[word].append(became)
        self.linked = Counter(became for words in self.links for became in words)

    def written(self, element: _Element, span: _Span) -> str:
        """What is inside an element, with the tags of the elements in it."""
        spans = zip(self._spans(element, span), range(len(element.inner)))
        parts, done = [], span.start
        for inner, number in sorted(spans, key=lambda found: (found[0].start, found[0].end, found[1])):
            child = element.inner[number]
            inner = inner._replace(start=max(done, inner.start), end=max(done, inner.end))
            parts += [
                self.shown(self.said[done : inner.start]),
                child.opening,
                self.written(child, inner),
                child.closing,
            ]
            parts.append(" " * (self._between_spaces(child) and inner.start < span.end))
            done = inner.end
        return "".join([*parts, self.shown(self.said[done : span.end])])

    def _between_spaces(self, element: _Element) -> bool:
        """Of an image: it came with two, where there is one between two words."""
        before, behind = self.text[max(0, element.start - 1) : element.start], self.text[element.end : element.end + 1]
        return element.start == element.end and before.isspace() and behind.isspace()

    def _spans(self, element: _Element, span: _Span) -> list[_Span]:
        """Of the elements within one, which has these words of the translation."""
        mine = self.source.within(element.start, element.end)
        theirs = [self.source.within(child.start, child.end) for child in element.inner]
        claims = [Counter(became for word in words for became in self.links[word]) for words in theirs]
        owners: dict[int, int] = {}
        runs: list[_Run | None] = [(span.first, span.last) if words and words == mine else None for words in theirs]
        # First what is an element's without doubt, then what it shares with words around it, then what is nobody's.
        for least in (0.51, 0.0):
            for number, claim in enumerate(claims):
                for word, links in claim.items() if not runs[number] else ():
                    if span.first <= word < span.last and links / self.linked[word] > least:
                        owners.setdefault(word, number)
            for number, words in enumerate(theirs):
                runs[number] = runs[number] or self._run(owners, number, words)
        for number, words in enumerate(theirs):
            if words and not runs[number]:
                runs[number] = self._free(words, span, [run for run in runs if run])
        taken = [run for run in runs if run]
        return [
            self._trimmed(child, run, span) if run and run[0] < run[1] else self._point(child, element, span, taken)
            for child, run in zip(element.inner, runs)
        ]

    def _run(self, owners: dict[int, int], number: int, words: range) -> _Run | None:
        """From an element's first word to its last, as far as no other element's stands between."""
        found = groupby(sorted(owners.items()), key=lambda owned: owned[1])
        runs = [[word for word, _ in run] for owner, run in found if owner == number]
        best = max(runs, key=lambda run: (len(run), -abs(run[0] - self._expected(words))), default=None)
        return (best[0], best[-1] + 1) if best else None

    def _free(self, words: range, span: _Span, taken: list[_Run]) -> _Run | None:
        """For an element whose words are linked to none: the word in its place, if nobody has it."""
        place = round(self._expected(words))
        free = span.first <= place < span.last and not any(first <= place < last for first, last in taken)
        return (place, place + 1) if free else None

    def _expected(self, words: range) -> float:
        """Where words would be in a translation that keeps their order."""
        return (words[0] + words[-1] + 1) / 2 * len(self.target) / len(self.source) - 0.5

    def _trimmed(self, element: _Element, run: _Run, span: _Span) -> _Span:
        """Words without the marks that stick to them, where the source has these outside: the <b>cat</b>."""
        start, end = max(span.start, self.target.starts[run[0]]), min(span.end, self.target.ends[run[1] - 1])
        words = self.source.within(element.start, element.end)
        prefix = self.text[self.source.starts[words[0]] : element.start]
        suffix = self.text[element.end : self.source.ends[words[-1]]]
        inside = self.text[element.start : element.end].strip()
        if prefix and self.said.startswith(prefix, start, end):
            start += len(prefix)
        while start < end - 1 and _letter(inside[0]) and not _letter(self.said[start]):
            start += 1
        if suffix and self.said.endswith(suffix, start, end):
            end -= len(suffix)
        while start < end - 1 and _letter(inside[-1]) and not _letter(self.said[end - 1]):
            end -= 1
        return _Span(*run, start, max(start, end))

    def _point(self, element: _Element, outer: _Element, span: _Span, taken: list[_Run]) -> _Span:
        """Where something without words goes: behind the word that the one before it became."""
        before = self.source.within(outer.start, element.start)
        after = self.source.within(element.end, outer.end)
        place = span.first if not before else span.last
        if before and after:
            inside = range(span.first, span.last)
            behind = [word + 1 for word in self.links[before[-1]] if word in inside]
            ahead = [word for word in self.links[after[0]] if word in inside]
            between = span.first + round(len(before) * len(inside) / (len(before) + len(after)))
            place = max(behind) if behind else min(ahead, default=between)
        for first, last in taken:
            if first < place < last:
                place = last
        spaced = self.text[max(0, element.start - 1) : element.start].isspace()
        if spaced:
            at = self.target.starts[place] if place < span.last else span.end
        else:
            at = self.target.ends[place - 1] if place > span.first else span.start
        at = min(max(at, span.start), span.end)
        return _Span(place, place, at, at)


def _diagonal(sources: int, targets: int) -> Links:
    """Links for a translation without any: as if it had its words in the order of the source's."""
    down = [(word, word * targets // sources) for word in range(sources)]
    return down + [(word * sources // targets, word) for word in range(targets)]


def _letter(character: str) -> bool:
    return character.isalnum() or ord(character) in PRIVATE_CHARACTERS
