"""Runs of text on the pages of a PDF, with position, size and style, in the order in which they are drawn."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

MAX_PAGES = 2000
MAX_RUNS = 1_000_000
MAX_CHARACTERS = 10_000_000


class Run(NamedTuple):
    """Text of one font at one place. y grows upwards."""

    x: float
    y: float
    size: float
    style: str
    """`b`, `i`, `bi`, `m` (monospaced: code) or empty."""
    text: str


_BOLD = re.compile("bold|black|heavy|semibold|demi|cmbx|-bd", re.IGNORECASE)
_ITALIC = re.compile("italic|oblique|slanted|ital$|cmti|cmsl|-it$", re.IGNORECASE)
_MONOSPACED = re.compile("mono|courier|consol|typewriter|cmtt|menlo|-?code$", re.IGNORECASE)
_PRESENTATION = re.compile("[\ufb00-\ufb06\ufb1d-\ufdff\ufe70-\ufefc]+")
"""Ligatures and the shapes of Arabic and Hebrew letters, which stand for ordinary ones."""
_TURNED = {0: (1, 0, 0, 1), 90: (0, -1, 1, 0), 180: (-1, 0, 0, -1), 270: (0, 1, -1, 0)}


class TooLarge(Exception):
    """The document exceeds a limit."""


def pages_of(reader: Any) -> Iterator[list[Run]]:
    """The runs of each page; `reader` is pypdf's. Text that is not written from left to right is left out."""
    if len(reader.pages) > MAX_PAGES:
        raise TooLarge(f"the PDF has more than {MAX_PAGES:,} pages")
    runs = characters = 0
    for page in reader.pages:
        found = list(_runs(page))
        runs += len(found)
        characters += sum(len(run.text) for run in found)
        if runs > MAX_RUNS or characters > MAX_CHARACTERS:
            raise TooLarge(f"the PDF has more than {MAX_CHARACTERS:,} characters of text")
        yield found


def _runs(page: Any) -> list[Run]:
    turn = _TURNED.get(int(page.get("/Rotate", 0) or 0) % 360, _TURNED[0])
    found: list[Run] = []

    def visit(text: str, outer: Any, inner: Any, font: Any, size: float) -> None:
        if not text.strip():
            if found and text and not found[-1].text.endswith((" ", "\n")):
                found[-1] = found[-1]._replace(text=found[-1].text + " ")
            return
        if len(found) >= MAX_RUNS:
            raise TooLarge("the PDF has a page with too much on it")
        along, up, x, y = _placed(inner, outer, turn)
        height = abs(size) * math.hypot(*up)
        if along[0] > abs(along[1]) and 0.5 < height < 1000 and all(map(math.isfinite, (x, y, height))):
            found.append(Run(x, y, height, _style(font), _letters(text)))

    page.extract_text(visitor_text=visit)
    return found


def _placed(inner: Any, outer: Any, turn: Any) -> tuple[tuple[float, float], tuple[float, float], float, float]:
    """The directions of the text line and of its height, and the place of its first letter, on the upright page."""
    a, b, c, d, e, f = map(float, inner[:6])
    o = [float(number) for number in outer[:6]]

    def point(x: float, y: float, shift: float) -> tuple[float, float]:
        x, y = x * o[0] + y * o[2] + shift * o[4], x * o[1] + y * o[3] + shift * o[5]
        return x * turn[0] + y * turn[2], x * turn[1] + y * turn[3]

    return point(a, b, 0), point(c, d, 0), *point(e, f, 1)


def _style(font: Any) -> str:
    name = str(font.get("/BaseFont", "")) if font else ""
    if _MONOSPACED.search(name):
        return "m"
    return ("b" if _BOLD.search(name) else "") + ("i" if _ITALIC.search(name) else "")


def _letters(text: str) -> str:
    return _PRESENTATION.sub(lambda shapes: unicodedata.normalize("NFKC", shapes[0]), text)
