"""Where the words of a text are, cut as in corpora whose words are tagged (WNUT, CoNLL): punctuation stands alone."""

from __future__ import annotations

import functools
import re
import unicodedata

_JOINERS = "\u200c\u200d"
_WORD = r"""
    (?:https?://|www\.)\S+                   # an address
    | [@#]L+                                 # somebody's name, a topic
    | ['’]s\b                                # Anna's: a word of its own, as it is after names
    | (?:\w\.){2,}                           # U.S., p.m.
    | \d+(?:[.,:/]\d+)+                      # 30,000  7:30  1/2
    | L+(?:-L+)*(?:['’](?!s\b)L+)*           # words, with hyphens and apostrophes inside: don't, spider-man
    | ([^\w\s])\1*                           # marks, and runs of one: ... !!!
"""


@functools.cache
def _words() -> re.Pattern[str]:
    # Python's \w leaves out vowel signs and accents that are characters of their own, and what joins Persian letters.
    signs = "".join(chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
    return re.compile(_WORD.replace("L", f"[\\w{signs}{_JOINERS}]"), re.VERBOSE | re.IGNORECASE)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where each begins and ends; together they hold everything of the text but white space."""
    return [found.span() for found in _words().finditer(text)]
