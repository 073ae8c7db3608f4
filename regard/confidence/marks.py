"""Marks the doubtful words of a translation, in text and in HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence

from regard.confidence.words import Word

BEFORE, AFTER = "[", "?]"
"""Around doubtful words in plain text; neighbours share them."""
CLASS = "doubtful"
USUAL_THRESHOLD = 0.5
"""Words with a lower confidence are marked, unless another threshold is given."""


def marked_text(text: str, words: Sequence[Word], threshold: float) -> str:
    """`He [bought?] it.`: every run of words with a confidence below the threshold is marked."""
    parts, done, last = [], 0, False
    for word in words:
        doubtful = word.confidence < threshold
        between = text[done : word.start]
        if last and not (doubtful and between.isspace()):
            parts.append(AFTER)
            last = False
        parts.append(between)
        if doubtful and not last:
            parts.append(BEFORE)
        parts.append(text[word.start : word.end])
        done, last = word.end, doubtful
    return "".join([*parts, AFTER if last else "", text[done:]])


def span(escaped: str, confidence: float) -> str:
    return f'<span class="{CLASS}" title="confidence {confidence:.2f}">{escaped}</span>'


def marked_html(text: str, words: Sequence[Word], threshold: float) -> str:
    """Each word below the threshold is a span of the class `doubtful`, whose title says its confidence."""
    parts, done = [], 0
    for word in words:
        if word.confidence < threshold:
            parts.append(html.escape(text[done : word.start], quote=False))
            shown = html.escape(text[word.start : word.end], quote=False)
            parts.append(span(shown, word.confidence))
            done = word.end
    return "".join([*parts, html.escape(text[done:], quote=False)])
