"""Splits a text into sentences to translate and everything between them, which is kept verbatim.

Line breaks, indentation, bullets and list numbers, tabs and columns, and emoji around a sentence stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from regard.task._sentence_boundaries import sentences
from regard.text.untranslatable import ProtectedSpan, has_words, may_have_protected_spans, protected_spans


class Piece(NamedTuple):
    """A piece of a text."""

    text: str
    translatable: bool
    """True for a sentence, without surrounding white space; other pieces are kept verbatim."""


_SEPARATOR = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+|\t+|[ \u00a0]{3,}")
"""Ends a sentence in any case: line breaks, and the gaps between columns of a table."""
_MARKER = re.compile(
    r"""\s*+ (?: (?: [-*+•‣◦▪●○–—·] | \#{1,6} | \[[ xX]\]
                   | \(?+ (?: \d{1,3}(?:\.\d{1,3}){0,4} [.)] | [A-Za-z]\) | [a-z]\. | [ivx]{2,5}[.)] | [IVX]{2,5}[.)] )
                 ) \s++ | >\s*+ )*""",
    re.VERBOSE,
)
"""Starts of list items, headings and quotations. A capital letter with a period is none: M. Dupont."""
_SPACE = re.compile(r"\s*")
_TRAILING_MARKS = re.compile(r"[\s,.;:!?…)،؛؟۔]*")


def split_text(text: str, lines: bool = True) -> list[Piece]:
    """The pieces of a text; joined, they are the text. Without `lines`, as in HTML, a line break is just a space."""
    found: list[Piece] = []
    done = 0
    for start, end in _lines(text) if lines else _sentences(text, 0):
        if start > done:
            found.append(Piece(text[done:start], False))
        found.append(Piece(text[start:end], True))
        done = end
    return [*found, Piece(text[done:], False)] if done < len(text) else found


Spans = Iterator[tuple[int, int]]
"""Start and end of each sentence to translate."""


def _lines(text: str) -> Spans:
    start = 0
    for gap in _SEPARATOR.finditer(text):
        if gap.start() > start:
            yield from _sentences(text[start : gap.start()], start)
        start = gap.end()
    yield from _sentences(text[start:], start)


def _sentences(line: str, offset: int) -> Spans:
    start, end = _end(_MARKER, line), len(line.rstrip())
    for sentence in sentences(line[start:end]) if start < end else ():
        if may_have_protected_spans(sentence):
            yield from _without_emoji(sentence, offset + start)
        elif has_words(sentence, []):
            yield offset + start, offset + start + len(sentence)
        start = _end(_SPACE, line, start + len(sentence))


def _without_emoji(sentence: str, offset: int) -> Spans:
    """A sentence without surrounding emoji. An emoji before a capital letter ends a sentence: Merci 😊 À demain."""
    spans = [
        *protected_spans(sentence),
        ProtectedSpan(len(sentence), len(sentence)),
    ]  # a sentinel, so that every gap is followed by a span
    gaps = [sentence[end : span.start] for end, span in zip([0, *(span.end for span in spans)], spans)]
    words = list(accumulate((any(map(str.isalpha, gap)) for gap in gaps), initial=0))
    first, last = 0, len(spans) - 1
    while first < last and spans[first].decorative and not gaps[first].strip():
        first += 1
    while last > first and spans[last - 1].decorative and not gaps[last].strip():
        last -= 1
    within = [number for number in range(first, last) if _before_capital(sentence, spans[number])]
    start = before = 0
    for number in [*range(first), *within, *range(last, len(spans))]:
        if words[number + 1] > words[before]:
            start = _end(_TRAILING_MARKS, sentence, start) if before else 0
            yield offset + start, offset + start + len(sentence[start : spans[number].start].rstrip())
        start, before = spans[number].end, number + 1


def _before_capital(text: str, span: ProtectedSpan) -> bool:
    if not (span.decorative and text[span.end : span.end + 1].isspace() and text[span.start - 1].isspace()):
        return False
    return text[_end(_SPACE, text, span.end)].isupper()


def _end(pattern: re.Pattern[str], text: str, start: int = 0) -> int:
    found = pattern.match(text, start)
    return found.end() if found else start
