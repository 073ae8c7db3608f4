"""Gradients through time as bars: the norm of the gradient of one output's log-probability, at every token.

With respect to the token's embedding, or to the state of a recurrent layer after the token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.style import FONT, MARGIN
from regard.inspection.trace.gradients import Gradients, Track

Scale = Literal["shared", "own", "logarithmic"]
HIGH, GAP, SMALL = 46.0, 18.0, 11.0
WIDE, NARROW = 38.0, 29.0
"""The width of a column of words, and of one of single characters."""
LOWEST = 1e-12
"""The lowest end of a log scale: smaller gradients are negligible."""


def draw_gradients(found: Gradients, tokens: Mapping[str, Sequence[str]], scale: Scale = "shared") -> Canvas:
    """A panel per track, below the tokens of its side. Tooltips hold the exact norms.

    All embeddings share one scale and all states another, on both sides of a translation; with `own` each panel has its
    own, so that none is flat.
    """
    title = f"log p({style.isolated(style.shortened(found.token))}) = {found.log_probability:.3f}, and its gradient by"
    canvas = Canvas("regard-gradients", "gradients through time", title)
    canvas.text(title, MARGIN, MARGIN + FONT, bold=True)
    y = MARGIN + 3 * FONT
    left = MARGIN + max((style.length(track.title) for track in found.tracks), default=0.0) + 10
    tallest = {
        kind: max((_greatest(t.norms) for t in found.tracks if (t.what == "vector") == kind), default=0.0)
        for kind in (True, False)
    }
    for side in dict.fromkeys(track.side for track in found.tracks):
        tracks = [track for track in found.tracks if track.side == side]
        count = max(len(track.norms) for track in tracks)
        labels = [style.label(token) for token in tokens[side][:count]]
        column = NARROW if all(style.length(label) <= NARROW - 3 for label in labels) else WIDE
        rotated = style.needs_rotation(labels, column)
        y += style.column_label_height(labels, column)
        for i, label in enumerate(labels):
            x, at = left + (i + 0.5) * column, f"token {side} {i}"
            canvas.text(
                label, x, y, anchor="start" if rotated else "middle", rotated=rotated, at=at, tooltip=tokens[side][i]
            )
        y += 10
        for track in tracks:
            top = _greatest(track.norms) if scale == "own" else tallest[track.what == "vector"]
            _panel(canvas, track, tokens[side], left, y, column, top, scale == "logarithmic")
            y += HIGH + GAP
        y += GAP
    return canvas


def _panel(
    canvas: Canvas,
    track: Track,
    tokens: Sequence[str],
    left: float,
    top: float,
    column: float,
    tallest: float,
    log_scale: bool,
) -> None:
    lowest = _floor(track.norms, tallest) if log_scale else 0.0
    canvas.text(track.title, left - 10, top + HIGH / 2 + 5, anchor="end", tooltip=track.path)
    wide = len(track.norms) * column
    canvas.boxes([(left, top, wide, HIGH)], "tile")
    canvas.text(f"{tallest:.2g}", left + wide + 6, top + 8, "faint", size=SMALL)
    canvas.text(f"{lowest:.0e}" if log_scale else "0", left + wide + 6, top + HIGH, "faint", size=SMALL)
    for i, norm in enumerate(track.norms):
        share = _share(float(norm), lowest, tallest, log_scale)
        tooltip = f"{track.title}, {style.isolated(tokens[i])}: {norm!s}"
        high = max(share * HIGH, 1.0)  # a zero is still a line, for its tooltip
        place = (left + i * column + 2, top + HIGH - high, column - 4, high)
        canvas.boxes([place], "ink", 0.85 if share > 0 else 0.25, tooltip, f"{track.side} {track.what} {i}")


def _share(norm: float, lowest: float, tallest: float, log_scale: bool) -> float:
    """The height of a bar, from 0 to 1."""
    if not math.isfinite(norm) or norm <= 0 or tallest <= 0:
        return 0.0
    if not log_scale:
        return min(1.0, norm / tallest)
    return min(1.0, max(0.0, math.log(norm / lowest) / math.log(tallest / lowest)))


def _floor(norms: np.ndarray, tallest: float) -> float:
    """The power of ten at which a log scale begins: below the smallest norm, and at most a hundredth of the largest."""
    least = min((float(norm) for norm in norms if norm > 0 and np.isfinite(norm)), default=tallest)
    lowest = min(max(least, LOWEST), (tallest or 1.0) / 100)
    return 10.0 ** math.floor(math.log10(lowest) - 1e-9)


def _greatest(norms: np.ndarray) -> float:
    return float(norms[np.isfinite(norms)].max(initial=0.0))
