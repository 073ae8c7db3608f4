"""Inline markup of any format as HTML, the form in which it is translated, and back.

A format describes a paragraph as text and marks. Opening and closing marks become tags that follow their words
(text/tag_placement.py), whatever the format means by them; kept marks stand for what is not text.

    html = to_html(["The ", Mark("open", bold), "cat", Mark("close"), " sleeps."])   # The <g1>cat</g1> sleeps.
    from_html(translated, tokens)                                                    # the same marks around other words
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple


class Mark(NamedTuple):
    """What a paragraph has besides text. Opening and closing marks are balanced."""

    kind: str
    """`open` and `close`; `atom`, which is kept and counts as a word (code, a formula); `void`, which is kept and is no
    word (a footnote's number, a picture); `range`, a void that keeps its order among others (the start and the end of a
    bookmark or a comment); `break`, which ends a sentence (a line break, a tab)."""
    value: Any = None
    """What the format makes of it."""


Token = str | Mark
_TAG = re.compile(r"<(?:g(?P<open>\d+)|/g(?P<close>\d+)|g(?P<void>\d+)/|var>(?P<atom>\d+)</var|br (?P<break>\d+))>")


def to_html(tokens: Sequence[Token]) -> str:
    return "".join(_tags(tokens))


def _tags(tokens: Sequence[Token]) -> Iterator[str]:
    opened: list[int] = []
    for number, token in enumerate(tokens):
        match token:
            case str():
                yield html.escape(token, quote=False)
            case Mark("open"):
                opened.append(number)
                yield f"<g{number}>"
            case Mark("close"):
                yield f"</g{opened.pop()}>"
            case Mark("void" | "range"):
                yield f"<g{number}/>"
            case Mark("atom"):
                yield f"<var>{number}</var>"
            case Mark("break"):
                yield f"<br {number}>"


def from_html(translated: str, tokens: Sequence[Token]) -> list[Token]:
    """The tokens of a translation: every mark of the original once, and other words."""
    closing = dict(_partners(tokens))
    found: list[Token] = []
    done = 0
    for tag in _TAG.finditer(translated):
        if tag.start() > done:
            found.append(html.unescape(translated[done : tag.start()]))
        number = int(tag[str(tag.lastgroup)])
        found.append(tokens[closing[number] if tag.lastgroup == "close" else number])
        done = tag.end()
    if done < len(translated):
        found.append(html.unescape(translated[done:]))
    ranges = (token for token in tokens if isinstance(token, Mark) and token.kind == "range")
    return [next(ranges) if isinstance(token, Mark) and token.kind == "range" else token for token in found]


def _partners(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    opened: list[int] = []
    for number, token in enumerate(tokens):
        if isinstance(token, Mark) and token.kind == "open":
            opened.append(number)
        elif isinstance(token, Mark) and token.kind == "close":
            yield opened.pop(), number


def has_letters(tokens: Sequence[Token]) -> bool:
    return any(isinstance(token, str) and any(map(str.isalpha, token)) for token in tokens)
