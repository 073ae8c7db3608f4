"""Gradients through time: how much the log-probability of one output changes with what the model had at each step.

A bar is the length of a gradient: by the vector a token came in as, or by the state of a recurrent layer after it. The
data and the drawing; how they are found is not known here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from regard.inspection.draw import style as paper
from regard.inspection.draw.canvas import Sheet
from regard.inspection.draw.style import FONT, MARGIN

if TYPE_CHECKING:
    from regard.inspection.trace.base import Choice, Picture, Shown, View

HIGH, GAP, SMALL = 46.0, 18.0, 11.0
WIDE, NARROW = 38.0, 29.0
"""A column of words, and one of single letters."""
LOWEST = 1e-12
"""How far down a scale of powers of ten goes: what is less is nothing to an optimiser."""


@dataclass
class Track:
    """The gradients by one thing at every token."""

    path: str
    what: str
    """`vector`: what the token came in as; `hidden`, `cell`: the state of a recurrent layer after it."""
    side: str
    """READING or WRITING: whose tokens."""
    norms: np.ndarray
    """(tokens,), in the order of the text."""
    layer: int = 0
    backwards: bool = False

    @property
    def title(self) -> str:
        if self.what == "vector":
            return "token's vector"
        return f"layer {self.layer} {self.what}{', from the end' if self.backwards else ''}"


@dataclass
class Gradients:
    """Of the log-probability of one output."""

    position: int
    """Which output, from 0."""
    token: str
    log_probability: float
    tracks: list[Track] = field(default_factory=list)


def gradients(seen: Shown, choice: Choice) -> View:
    """The view: on an even scale, and in powers of ten, where one sees what vanishes."""
    from regard.inspection.trace.base import READING, WRITING, View

    found = seen.gradients_of(choice.position)
    tokens = {side: seen.tokens(side) for side in (READING, WRITING)}
    pictures = [_picture(found, tokens, *kind) for kind in (("gradients", False), ("in powers of ten", True))]
    about = (
        f"How much the log-probability of output {found.position}, {paper.isolated(paper.shortened(found.token))}, "
        "would change with what the model had at each step: the higher a bar, the more that step counts."
    )
    return View("gradients", about, ("gradients",), pictures)


def _picture(found: Gradients, tokens: Mapping[str, Sequence[str]], heading: str, powers: bool) -> Picture:
    from regard.inspection.trace.base import Picture

    draw = partial(bars, found, tokens, powers)
    return Picture(heading, lambda: draw().svg(), lambda: draw().figure())


def bars(found: Gradients, tokens: Mapping[str, Sequence[str]], powers: bool = False) -> Sheet:
    """A panel for each track, under the tokens of its side. Tooltips hold the exact lengths."""
    said = f"log p({paper.isolated(paper.shortened(found.token))}) = {found.log_probability:.3f}, and its gradient by"
    sheet = Sheet("regard-gradients", "gradients through time", said)
    sheet.words(said, MARGIN, MARGIN + FONT, bold=True)
    y = MARGIN + 3 * FONT
    left = MARGIN + max((paper.length(track.title) for track in found.tracks), default=0.0) + 10
    # Vectors are compared with vectors and states with states, on both sides of a translation alike.
    tallest = {
        kind: max((_greatest(t.norms) for t in found.tracks if (t.what == "vector") == kind), default=0.0)
        for kind in (True, False)
    }
    for side in dict.fromkeys(track.side for track in found.tracks):
        tracks = [track for track in found.tracks if track.side == side]
        count = max(len(track.norms) for track in tracks)
        labels = [paper.label(token) for token in tokens[side][:count]]
        column = NARROW if all(paper.length(label) <= NARROW - 3 for label in labels) else WIDE
        leans = paper.leans(labels, column)
        y += paper.room_on_top(labels, column)
        for i, label in enumerate(labels):
            x, at = left + (i + 0.5) * column, f"token {side} {i}"
            sheet.words(label, x, y, anchor="start" if leans else "middle", leans=leans, at=at, tooltip=tokens[side][i])
        y += 10
        for track in tracks:
            _panel(sheet, track, tokens[side], left, y, column, tallest[track.what == "vector"], powers)
            y += HIGH + GAP
        y += GAP
    return sheet


def _panel(
    sheet: Sheet,
    track: Track,
    tokens: Sequence[str],
    left: float,
    top: float,
    column: float,
    tallest: float,
    powers: bool,
) -> None:
    lowest = _floor(track.norms, tallest) if powers else 0.0
    sheet.words(track.title, left - 10, top + HIGH / 2 + 5, anchor="end", tooltip=track.path)
    wide = len(track.norms) * column
    sheet.boxes([(left, top, wide, HIGH)], "tile")
    sheet.words(f"{tallest:.2g}", left + wide + 6, top + 8, "faint", size=SMALL)
    sheet.words(f"{lowest:.0e}" if powers else "0", left + wide + 6, top + HIGH, "faint", size=SMALL)
    for i, norm in enumerate(track.norms):
        share = _share(float(norm), lowest, tallest, powers)
        tooltip = f"{track.title}, {paper.isolated(tokens[i])}: {norm!s}"
        high = max(share * HIGH, 1.0)  # even nothing is a line that can be pointed at
        place = (left + i * column + 2, top + HIGH - high, column - 4, high)
        sheet.boxes([place], "ink", 0.85 if share > 0 else 0.25, tooltip, f"{track.side} {track.what} {i}")


def _share(norm: float, lowest: float, tallest: float, powers: bool) -> float:
    """How high a bar stands, from 0 to 1."""
    if not math.isfinite(norm) or norm <= 0 or tallest <= 0:
        return 0.0
    if not powers:
        return min(1.0, norm / tallest)
    return min(1.0, max(0.0, math.log(norm / lowest) / math.log(tallest / lowest)))


def _floor(norms: np.ndarray, tallest: float) -> float:
    """The power of ten at which a scale begins: below the least that there is, and at least a hundredth of the most."""
    least = min((float(norm) for norm in norms if norm > 0 and np.isfinite(norm)), default=tallest)
    wanted = min(max(least, LOWEST), (tallest or 1.0) / 100)
    return 10.0 ** math.floor(math.log10(wanted) - 1e-9)


def _greatest(norms: np.ndarray) -> float:
    return float(norms[np.isfinite(norms)].max(initial=0.0))
