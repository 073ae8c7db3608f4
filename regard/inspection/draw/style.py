"""The style of all pictures: palette, background, label layout, and text escaped for SVG."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

FONT, MARGIN = 14, 22.0
SLANT = 0.71
"""The width and height of a label rotated by 45 degrees, relative to its length."""
LONGEST = 24
"""The most characters of a label; tooltips hold the whole."""

# A picture has its own background (paper), so that it is readable on any page, dark in dark mode. The light colours
# are attributes and the dark ones a style sheet, so that programs without style sheets draw the light version.
LIGHT = {
    "paper": "#ffffff",
    "text": "#29263b",
    "faint": "#6c6880",
    "tile": "#f3f1fa",
    "ink": "#43209e",
    "rust": "#c8553d",  # negative values; positive ones are ink
    "veil": "#8a84a8",  # over what has no attention; as far from black as from white
}
DARK = {
    "paper": "#17151f",
    "text": "#ebe8f5",
    "faint": "#9d98b5",
    "tile": "#24212f",
    "ink": "#c5b3ff",
    "rust": "#ff9f85",
    "veil": "#6b6685",
}
RIM = "#8a84a8"


def picture(
    kind: str, width: int, height: int, groups: Mapping[str, Sequence[str]], title: str, about: str = ""
) -> str:
    """A self-contained SVG: groups of elements, each named after its colour, on the background. `kind` is its class."""
    style = "".join(
        f".{kind} .{name}{{fill:{DARK[name]};color:{DARK[name]}}}" for name in DARK if name == "paper" or name in groups
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-label="{safe(title or about)}" font-size="{FONT}" '
            'font-family="system-ui, -apple-system, Segoe UI, Noto Sans, DejaVu Sans, sans-serif">',
            f"<style>@media (prefers-color-scheme:dark){{{style}}}</style>",
            f'<rect class="paper" fill="{LIGHT["paper"]}" stroke="{RIM}" stroke-opacity=".35" x=".5" y=".5" '
            f'width="{width - 1}" height="{height - 1}" rx="12"/>',
            *(
                f'<g class="{name}" fill="{LIGHT[name]}" color="{LIGHT[name]}">\n' + "\n".join(group) + "\n</g>"
                for name, group in groups.items()
            ),
            "</svg>\n",
        ]
    )


def text(content: str, x: float, y: float, more: str = "", tooltip: str = "") -> str:
    """A line of text; `more` are further attributes, already escaped."""
    title = f"<title>{safe(tooltip)}</title>" if tooltip else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{title}{safe(content)}</text>'


def column_labels(words: Sequence[str], left: float, y: float, step: float) -> list[str]:
    """Column labels, centred; all are rotated where one is wider than its column."""
    rotated = needs_rotation(words, step)
    found = []
    for i, word in enumerate(words):
        x = left + (i + 0.5) * step
        turn = f' transform="rotate(-45 {x:.1f} {y:.1f})"' if rotated else ' text-anchor="middle"'
        found.append(text(word, x, y, turn))
    return found


def needs_rotation(words: Sequence[str], step: float) -> bool:
    return any(length(word) > step - 3 for word in words)


def column_label_height(words: Sequence[str], step: float) -> float:
    """The height of the column labels."""
    return SLANT * max(map(length, words)) if needs_rotation(words, step) else FONT


def column_label_end(words: Sequence[str], left: float, step: float) -> float:
    """The x where rotated column labels end."""
    ends = [
        left + (i + 0.6) * step + SLANT * length(word) for i, word in enumerate(words) if needs_rotation(words, step)
    ]
    return max(ends, default=0.0)


def printable(words: str) -> str:
    """Replaces characters that XML cannot hold (most control characters, lone surrogates) by U+FFFD."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", words)


def safe(words: str) -> str:
    return escape(printable(words), {'"': "&quot;"})


def label(words: str) -> str:
    return isolated(shortened(words))


def shortened(words: str, longest: int = LONGEST) -> str:
    return words if len(words) <= longest else words[: longest - 1] + "…"


def isolated(words: str) -> str:
    """Right-to-left text inside Unicode isolates, so that it does not reorder its neighbours."""
    backwards = any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in words)
    return f"\u2068{words}\u2069" if backwards else words


def length(words: str) -> float:
    """The approximate width of a text, rather too wide: the font is not known."""
    wide = sum(character == "\ufffd" or unicodedata.east_asian_width(character) in "WF" for character in words)
    marks = sum(unicodedata.category(character) in ("Mn", "Cf") for character in words)
    return FONT * (0.6 * (len(words) - wide - marks) + 1.2 * wide)
