"""Doubtful words of a translated HTML document as spans.

They are marked by two characters before the sentences are put into the document, and become spans afterwards: so tags
are placed as without them. A mark that a tag has come into is dropped: elements must not overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from regard.confidence.marks import span
from regard.text.alignment import AlignedText

OPEN, CLOSE = "\U00100000", "\U00100001"
"""Private characters that no text has; those of a text that does have them are left alone."""
_MARKED = re.compile(f"{OPEN}([^{OPEN}{CLOSE}<]*){CLOSE}|[{OPEN}{CLOSE}]")
_TAGS = "((?:<[^<>]{1,1000}>){1,20})"
_OPEN_BEFORE_TAGS, _CLOSE_AFTER_TAGS = re.compile(OPEN + _TAGS), re.compile(_TAGS + CLOSE)


def can_mark(html: str) -> bool:
    return OPEN not in html and CLOSE not in html


def doubtful(translation: AlignedText, threshold: float) -> list[float]:
    """The confidences of the words that are marked."""
    known = translation.confidences
    return [word.confidence for word in known.words if word.confidence < threshold] if known else []


def with_marks(translation: AlignedText, threshold: float) -> AlignedText:
    if translation.confidences is None or not can_mark(translation.text):
        return translation
    text, done = "", 0
    for word in translation.confidences.words:
        if word.confidence < threshold:
            text += translation.text[done : word.start] + OPEN + translation.text[word.start : word.end] + CLOSE
            done = word.end
    return translation._replace(text=text + translation.text[done:])


def as_spans(html: str, confidences: Sequence[float]) -> str:
    """The document with spans for marks; `confidences` are those of the marked words, in order."""
    html = _CLOSE_AFTER_TAGS.sub(rf"{CLOSE}\1", _OPEN_BEFORE_TAGS.sub(rf"\1{OPEN}", html))
    left: Iterator[float] = iter(confidences)
    pieces, done, word = [], 0, 0.0
    for found in _MARKED.finditer(html):
        pieces.append(html[done : found.start()])
        done = found.end()
        if found[0].startswith(OPEN):
            word = next(left, 0.0)
        if found[1] is not None:
            pieces.append(span(found[1], word))
    return "".join([*pieces, html[done:]])
