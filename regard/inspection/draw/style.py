"""What all pictures share: their paper and colours, and words made safe to draw. Knows nothing of what is drawn."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

FONT, MARGIN = 14, 22.0
SLANT = 0.71
"""What a label that leans by 45 degrees needs of its length, across and up."""
LONGEST = 24
"""Characters of a label that are drawn; the whole of it is in the tooltips."""

# The picture brings its own paper, so that it reads on any page; the paper is dark where the reader's pages are.
# The light colours are attributes and the dark ones a style, so that programs without style sheets draw the light one.
LIGHT = {
    "paper": "#ffffff",
    "text": "#29263b",
    "faint": "#6c6880",
    "tile": "#f3f1fa",
    "ink": "#43209e",
    "rust": "#c8553d",  # below zero, where ink is above
    "veil": "#8a84a8",  # over what was not looked at; as far from black as from white
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
HUES = 12
"""So many colours there are for words: as many as stay apart for the eye."""


def picture(
    kind: str, width: int, height: int, groups: Mapping[str, Sequence[str]], title: str, about: str = ""
) -> str:
    """A self-contained SVG: elements in groups, each named after its colour, on the paper. `kind` is its class."""
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


def text(words: str, x: float, y: float, more: str = "", tooltip: str = "") -> str:
    """A line of text; `more` are attributes, as they stand in the file."""
    told = f"<title>{safe(tooltip)}</title>" if tooltip else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{told}{safe(words)}</text>'


def on_top(words: Sequence[str], left: float, y: float, step: float) -> list[str]:
    """The labels of columns, over their middle; they lean where one of them is wider than its column."""
    turned = leans(words, step)
    found = []
    for i, word in enumerate(words):
        x = left + (i + 0.5) * step
        turn = f' transform="rotate(-45 {x:.1f} {y:.1f})"' if turned else ' text-anchor="middle"'
        found.append(text(word, x, y, turn))
    return found


def leans(words: Sequence[str], step: float) -> bool:
    return any(length(word) > step - 3 for word in words)


def room_on_top(words: Sequence[str], step: float) -> float:
    """How high the labels of columns stand."""
    return SLANT * max(map(length, words)) if leans(words, step) else FONT


def reach(words: Sequence[str], left: float, step: float) -> float:
    """How far to the right the labels of columns reach."""
    ends = [left + (i + 0.6) * step + SLANT * length(word) for i, word in enumerate(words) if leans(words, step)]
    return max(ends, default=0.0)


def printable(words: str) -> str:
    """What XML has no place for (most control characters, lone surrogates) becomes the replacement character."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", words)


def safe(words: str) -> str:
    return escape(printable(words), {'"': "&quot;"})


def label(words: str) -> str:
    return isolated(shortened(words))


def shortened(words: str, longest: int = LONGEST) -> str:
    return words if len(words) <= longest else words[: longest - 1] + "…"


def isolated(words: str) -> str:
    """Right-to-left words between the two marks that keep them from reordering their neighbours."""
    backwards = any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in words)
    return f"\u2068{words}\u2069" if backwards else words


def length(words: str) -> float:
    """About how wide a text is drawn: the font is the reader's, so this errs to the wide side."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in words)
    marks = sum(unicodedata.category(character) in ("Mn", "Cf") for character in words)
    return FONT * (0.6 * (len(words) - wide - marks) + 1.2 * wide)


def hue(word: str) -> int:
    """Which of the HUES colours a word has: the same word has the same one everywhere, however it is capitalised and
    whatever stands around it. The studio's page counts the same way (studio/page/words.js)."""
    inside = [place for place, letter in enumerate(word) if unicodedata.category(letter)[0] in "LMN"]
    found = 0x811C9DC5  # FNV-1a
    bare = word[inside[0] : inside[-1] + 1] if inside else word
    for byte in re.sub("[\ud800-\udfff]", "\ufffd", bare.lower()).encode():
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return found % HUES
