"""Splits a text into words as tagged corpora do (WNUT, CoNLL): punctuation marks are words of their own."""

from __future__ import annotations

import functools
import re
import unicodedata

_JOINERS = "\u200c\u200d"
_WORD = r"""
    (?:https?://|www\.)\S+                   # a URL
    | [@#]L+                                 # a mention, a hashtag
    | ['’]s\b                                # Anna's: a word of its own
    | (?:\w\.){2,}                           # U.S., p.m.
    | \d+(?:[.,:/]\d+)+                      # 30,000  7:30  1/2
    | L+(?:-L+)*(?:['’](?!s\b)L+)*           # words, with hyphens and apostrophes inside: don't, spider-man
    | ([^\w\s])\1*                           # marks, and runs of one: ... !!!
"""


@functools.cache
def _words() -> re.Pattern[str]:
    # Python's \w leaves out combining vowel signs and accents, and the joiners of Persian.
    signs = "".join(chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
    return re.compile(_WORD.replace("L", f"[\\w{signs}{_JOINERS}]"), re.VERBOSE | re.IGNORECASE)


def word_spans(text: str) -> list[tuple[int, int]]:
    """(start, stop) of each word; together they cover all of the text but white space."""
    return [found.span() for found in _words().finditer(text)]
