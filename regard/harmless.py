"""Text as it may be written where a person reads: one line stays one line, and nothing in it steers a terminal."""

from __future__ import annotations

import re

BREAKS = re.compile("[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
"""Whatever some program takes for the end of a line, and the tab, which separates our columns."""
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")
"""Characters a terminal may obey instead of showing: among them ESC and CSI."""


def one_line(text: str) -> str:
    return BREAKS.sub(" ", text)


def harmless(text: str) -> str:
    """The text with control characters spelled out, `\\x1b` for ESC."""
    return CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
