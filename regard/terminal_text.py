"""Escape text for terminal output: no control characters, no line breaks, nothing that reorders or hides other text."""

from __future__ import annotations

import json
import re
from typing import Any

BREAKS = re.compile("[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
"""Line breaks in any convention, and the tab, which separates our columns."""
CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0 and C1: among them ESC and CSI
    "\u2028\u2029"  # line and paragraph separators
    "\u202a-\u202e\u2066-\u2069"  # bidi embeddings, overrides and isolates: they reorder what follows, even digits
    "\u180e\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # invisible format characters without a use in plain text
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"  # the same; tag characters can hide ASCII
    "\ud800-\udfff]"  # lone surrogates: non-UTF-8 bytes of a file name
    "|(?<![\u0e00-\u109f\u1780-\u17ff\u1950-\u1aad])\u200b"  # zero-width space, except where it separates words
)
"""Characters that a terminal interprets instead of displaying, or that change the order or visibility of text.

Not included, because text needs them and they cannot move a character that has a direction: ZWNJ (U+200C, Persian) and
ZWJ (U+200D, emoji and Indic scripts); the direction marks U+200E, U+200F and U+061C, used beside numbers and brackets
in Hebrew and Arabic; the soft hyphen; and the zero-width space after letters of Thai, Lao, Tibetan, Burmese, Khmer and
related scripts, which have no other word separator.
"""


def one_line(text: str) -> str:
    return BREAKS.sub(" ", text)


def escape_control_characters(text: str) -> str:
    """Replaces each control character by its escape: `\\x1b` for ESC, `\\u202e` for a right-to-left override."""
    return CONTROLS.sub(lambda found: _escaped(ord(found[0])), text)


def as_json(value: Any) -> str:
    """One line of JSON in which line separators and control characters are written as `\\uXXXX`."""
    written = json.dumps(value, ensure_ascii=False)
    return CONTROLS.sub(lambda found: json.dumps(found[0])[1:-1] if found[0] != "\x7f" else "\\u007f", written)


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
