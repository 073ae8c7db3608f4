"""A text cut into sentences to translate and all that stands between them, which is kept: put together it is the text.

Lines, indentation, bullets and list numbers, tabs and columns, emoji around a sentence stay exactly as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from regard.serving.text.untranslatable import ProtectedSpan, has_words, may_have_protected_spans, protected_spans
from regard.task._splitting import sentences


class Piece(NamedTuple):
    """A part of a text."""

    text: str
    wanted: bool
    """A sentence to translate, without white space around it; else it is kept as it is."""


_APART = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+|\t+|[ \u00a0]{3,}")
"""What sets words apart whatever they say: ends of lines, and what makes the columns of a table."""
_MARKER = re.compile(
    r"""\s*+ (?: (?: [-*+•‣◦▪●○–—·] | \#{1,6} | \[[ xX]\]
                   | \(?+ (?: \d{1,3}(?:\.\d{1,3}){0,4} [.)] | [A-Za-z]\) | [a-z]\. | [ivx]{2,5}[.)] | [IVX]{2,5}[.)] )
                 ) \s++ | >\s*+ )*""",
    re.VERBOSE,
)
"""What begins the points of a list, headings and quotations. (A capital and a stop do not: M. Dupont.)"""
_SPACE = re.compile(r"\s*")
_LEFT_OVER = re.compile(r"[\s,.;:!?…)]*")


def split_text(text: str, lines: bool = True) -> list[Piece]:
    """Joined, the pieces are the text. Without `lines`, as in HTML, the end of a line is a space like any other."""
    found: list[Piece] = []
    done = 0
    for start, end in _lines(text) if lines else _sentences(text, 0):
        if start > done:
            found.append(Piece(text[done:start], False))
        found.append(Piece(text[start:end], True))
        done = end
    return [*found, Piece(text[done:], False)] if done < len(text) else found


Spans = Iterator[tuple[int, int]]
"""Where each sentence to translate begins and ends in the text."""


def _lines(text: str) -> Spans:
    start = 0
    for gap in _APART.finditer(text):
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
    """A sentence without the emoji around it. Those before a capital end a sentence, too: Merci 😊 À demain."""
    things = [
        *protected_spans(sentence),
        ProtectedSpan(len(sentence), len(sentence)),
    ]  # the end, so that one stands behind each gap
    gaps = [sentence[end : thing.start] for end, thing in zip([0, *(thing.end for thing in things)], things)]
    words = list(accumulate((any(map(str.isalpha, gap)) for gap in gaps), initial=0))
    first, last = 0, len(things) - 1
    while first < last and things[first].ornament and not gaps[first].strip():
        first += 1
    while last > first and things[last - 1].ornament and not gaps[last].strip():
        last -= 1
    within = [number for number in range(first, last) if _before_capital(sentence, things[number])]
    start = before = 0
    for number in [*range(first), *within, *range(last, len(things))]:
        if words[number + 1] > words[before]:
            start = _end(_LEFT_OVER, sentence, start) if before else 0
            yield offset + start, offset + start + len(sentence[start : things[number].start].rstrip())
        start, before = things[number].end, number + 1


def _before_capital(text: str, thing: ProtectedSpan) -> bool:
    if not (thing.ornament and text[thing.end : thing.end + 1].isspace() and text[thing.start - 1].isspace()):
        return False
    return text[_end(_SPACE, text, thing.end)].isupper()


def _end(pattern: re.Pattern[str], text: str, start: int = 0) -> int:
    found = pattern.match(text, start)
    return found.end() if found else start
