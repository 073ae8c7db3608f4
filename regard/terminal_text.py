"""Escape text for terminal output: no control characters, no line breaks, nothing that reorders or hides other text."""

from __future__ import annotations

import re

BREAKS = re.compile("[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
"""Whatever some program takes for the end of a line, and the tab, which separates our columns."""
CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0 and C1: among them ESC and CSI
    "\u2028\u2029"  # line and paragraph separators
    "\u202a-\u202e\u2066-\u2069"  # bidi embeddings, overrides and isolates: they reorder what follows, even its digits
    "\u180e\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # invisible, and of no use in text that is shown
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"  # the same elsewhere: tags spell hidden ASCII
    "\ud800-\udfff]"  # lone surrogates: bytes of a file name that are not UTF-8
    "|(?<![\u0e00-\u109f\u1780-\u17ff\u1950-\u1aad])\u200b"  # zero-width space, except where it ends words
)
"""What a terminal may obey instead of showing it, or what shows text in another order than it is stored in.

Kept, since text needs them and none moves a character that has a direction of its own: ZWNJ (U+200C, Persian) and ZWJ
(U+200D, emoji and Indic scripts); the direction marks U+200E, U+200F and U+061C, which stand for one invisible letter
beside a number or a bracket in Hebrew and Arabic; the soft hyphen; and the zero-width space after letters of Thai, Lao,
Tibetan, Burmese, Khmer and their neighbours, which have no other space between words.
"""


def one_line(text: str) -> str:
    return BREAKS.sub(" ", text)


def harmless(text: str) -> str:
    """The text with such characters spelled out: `\\x1b` for ESC, `\\u202e` for a right-to-left override."""
    return CONTROLS.sub(lambda found: _spelled(ord(found[0])), text)


def _spelled(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
