"""Places the tags of a sentence in its translation: each element around the words that its words are aligned to.

Every tag is written once, and the nesting is preserved. If the words of an element are scattered over the translation,
it takes the longest run of them. An element without words (an image) follows the same word as in the source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from regard.text.alignment import AlignedText, Links, Words
from regard.text.untranslatable import PRIVATE_CHARACTERS


class Tag(NamedTuple):
    """A tag of a sentence."""

    kind: str
    """`open`, `close` or `void`."""
    raw: str
    offset: int
    """Its offset in the text of the sentence."""


@dataclass
class _Element:
    opening: str
    start: int
    end: int = -1
    closing: str = ""
    inner: list[_Element] = field(default_factory=list)


_Run = tuple[int, int]
"""A range of words of the translation: first and one past the last."""


class _Span(NamedTuple):
    """The words of an element, and its start and end in the translated text."""

    first: int
    last: int
    start: int
    end: int


def place_tags(text: str, tags: Sequence[Tag], translation: AlignedText, render: Callable[[str], str]) -> str:
    """The translation with the balanced tags of its sentence. `render` escapes the text between tags."""
    placement = _TagPlacement(text, translation, render)
    whole = _Span(0, len(placement.target), 0, len(translation.text))
    return placement.render_element(_tree(tags, len(text)), whole)


def _tree(tags: Sequence[Tag], end: int) -> _Element:
    root = _Element("", 0, end)
    stack = [root]
    for tag in tags:
        if tag.kind == "close":
            element = stack.pop()
            element.end, element.closing = tag.offset, tag.raw
        else:
            element = _Element(tag.raw, tag.offset, tag.offset)
            stack[-1].inner.append(element)
            if tag.kind == "open":
                stack.append(element)
    return root


class _TagPlacement:
    def __init__(self, text: str, translation: AlignedText, render: Callable[[str], str]):
        self.text, self.translation, self.render = text, translation.text, render
        self.source, self.target = Words(text), Words(translation.text)
        links = translation.alignment
        if links is None:
            links = _diagonal(len(self.source), len(self.target))
        self.links: list[list[int]] = [[] for _ in range(len(self.source))]
        for source, target in links:
            if 0 <= source < len(self.source) and 0 <= target < len(self.target):
                self.links[source].append(target)
        self.linked = Counter(target for targets in self.links for target in targets)

    def render_element(self, element: _Element, span: _Span) -> str:
        """The content of an element, with the tags of its inner elements."""
        spans = zip(self._spans(element, span), range(len(element.inner)))
        parts, done = [], span.start
        for inner, number in sorted(spans, key=lambda found: (found[0].start, found[0].end, found[1])):
            child = element.inner[number]
            inner = inner._replace(start=max(done, inner.start), end=max(done, inner.end))
            parts += [
                self.render(self.translation[done : inner.start]),
                child.opening,
                self.render_element(child, inner),
                child.closing,
            ]
            parts.append(" " * (self._between_spaces(child) and inner.start < span.end))
            done = inner.end
        return "".join([*parts, self.render(self.translation[done : span.end])])

    def _between_spaces(self, element: _Element) -> bool:
        """Whether an empty element has a space on both sides, where words have one between them."""
        before, after = self.text[max(0, element.start - 1) : element.start], self.text[element.end : element.end + 1]
        return element.start == element.end and before.isspace() and after.isspace()

    def _spans(self, element: _Element, span: _Span) -> list[_Span]:
        """The spans of an element's inner elements."""
        own = self.source.within(element.start, element.end)
        inner_words = [self.source.within(child.start, child.end) for child in element.inner]
        claims = [Counter(target for word in words for target in self.links[word]) for words in inner_words]
        owners: dict[int, int] = {}
        runs: list[_Run | None] = [(span.first, span.last) if words and words == own else None for words in inner_words]
        # First words that clearly belong to an element, then words it shares with others, then unclaimed words.
        for threshold in (0.51, 0.0):
            for number, claim in enumerate(claims):
                for word, links in claim.items() if not runs[number] else ():
                    if span.first <= word < span.last and links / self.linked[word] > threshold:
                        owners.setdefault(word, number)
            for number, words in enumerate(inner_words):
                runs[number] = runs[number] or self._run(owners, number, words)
        for number, words in enumerate(inner_words):
            if words and not runs[number]:
                runs[number] = self._free(words, span, [run for run in runs if run])
        taken = [run for run in runs if run]
        return [
            self._trimmed(child, run, span) if run and run[0] < run[1] else self._point(child, element, span, taken)
            for child, run in zip(element.inner, runs)
        ]

    def _run(self, owners: dict[int, int], number: int, words: range) -> _Run | None:
        """The longest run of an element's words without another element's word in between."""
        found = groupby(sorted(owners.items()), key=lambda owned: owned[1])
        runs = [[word for word, _ in run] for owner, run in found if owner == number]
        best = max(runs, key=lambda run: (len(run), -abs(run[0] - self._expected(words))), default=None)
        return (best[0], best[-1] + 1) if best else None

    def _free(self, words: range, span: _Span, taken: list[_Run]) -> _Run | None:
        """For an element without aligned words: the word at its expected position, if that is free."""
        position = round(self._expected(words))
        free = span.first <= position < span.last and not any(first <= position < last for first, last in taken)
        return (position, position + 1) if free else None

    def _expected(self, words: range) -> float:
        """The position of words in a translation with the same word order."""
        return (words[0] + words[-1] + 1) / 2 * len(self.target) / len(self.source) - 0.5

    def _trimmed(self, element: _Element, run: _Run, span: _Span) -> _Span:
        """The run without attached punctuation that is outside the element in the source: the <b>cat</b>."""
        start, end = max(span.start, self.target.starts[run[0]]), min(span.end, self.target.ends[run[1] - 1])
        words = self.source.within(element.start, element.end)
        prefix = self.text[self.source.starts[words[0]] : element.start]
        suffix = self.text[element.end : self.source.ends[words[-1]]]
        inside = self.text[element.start : element.end].strip()
        if prefix and self.translation.startswith(prefix, start, end):
            start += len(prefix)
        while start < end - 1 and _letter(inside[0]) and not _letter(self.translation[start]):
            start += 1
        if suffix and self.translation.endswith(suffix, start, end):
            end -= len(suffix)
        while start < end - 1 and _letter(inside[-1]) and not _letter(self.translation[end - 1]):
            end -= 1
        return _Span(*run, start, max(start, end))

    def _point(self, element: _Element, outer: _Element, span: _Span, taken: list[_Run]) -> _Span:
        """The position of an element without words: after the translation of the word before it."""
        before = self.source.within(outer.start, element.start)
        after = self.source.within(element.end, outer.end)
        position = span.first if not before else span.last
        if before and after:
            inside = range(span.first, span.last)
            after_previous = [word + 1 for word in self.links[before[-1]] if word in inside]
            before_next = [word for word in self.links[after[0]] if word in inside]
            between = span.first + round(len(before) * len(inside) / (len(before) + len(after)))
            position = max(after_previous) if after_previous else min(before_next, default=between)
        for first, last in taken:
            if first < position < last:
                position = last
        spaced = self.text[max(0, element.start - 1) : element.start].isspace()
        if spaced:
            at = self.target.starts[position] if position < span.last else span.end
        else:
            at = self.target.ends[position - 1] if position > span.first else span.start
            suffix = self.text[element.end : self.source.ends[before[-1]]] if before else ""
            if suffix and not any(map(_letter, suffix)) and self.translation.endswith(suffix, span.start, at):
                at -= len(suffix)  # a footnote's number, before the full stop
        at = min(max(at, span.start), span.end)
        return _Span(position, position, at, at)


def _diagonal(sources: int, targets: int) -> Links:
    """Links for a translation without alignment: assumes the same word order."""
    down = [(word, word * targets // sources) for word in range(sources)]
    return down + [(word * sources // targets, word) for word in range(targets)]


def _letter(character: str) -> bool:
    return character.isalnum() or ord(character) in PRIVATE_CHARACTERS
