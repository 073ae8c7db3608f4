"""Signed numbers as bars, one panel below the other over the same columns: up (ink) positive, down (rust) negative.

One unit of a recurrent layer along a text, and the similarity of every position to one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.style import FONT, LONGEST, MARGIN

HIGH, GAP, SMALL = 56.0, 20.0, 11.0
WIDE, NARROW = 38.0, 18.0
"""The width of a column, and of one whose label has at most two characters."""


def draw_signed_bars(
    kind: str, title: str, panels: Mapping[str, np.ndarray], columns: Sequence[str], marked: int | None = None
) -> Canvas:
    """Each panel is one number per column, from -1 to 1 or to its own largest magnitude. `marked` is a column in bold.

    Tooltips hold the exact values: `PANEL, COLUMN: value`.
    """
    canvas = Canvas(kind, title, style.shortened(title, 4 * LONGEST))
    canvas.text(canvas.title, MARGIN, MARGIN + FONT, bold=True)
    labels = [style.label(column) for column in columns]
    step = NARROW if all(len(column) <= 2 for column in columns) else WIDE
    small = SMALL if step == NARROW else FONT
    rotated = step == WIDE and style.needs_rotation(labels, step)
    left = MARGIN + max((style.length(name) for name in panels), default=0.0) + 34
    y = MARGIN + 2 * FONT + (style.column_label_height(labels, step) if rotated else FONT)
    for i, label in enumerate(labels):
        x, anchor = left + (i + 0.5) * step, "start" if rotated else "middle"
        canvas.text(label, x, y, "text", anchor, small, bold=i == marked, rotated=rotated, at=f"column {i}")
    y += 10
    for name, values in panels.items():
        _panel(canvas, name, values, columns, left, y, step)
        y += HIGH + GAP
    return canvas


def _panel(
    canvas: Canvas, name: str, values: np.ndarray, columns: Sequence[str], left: float, top: float, step: float
) -> None:
    finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    most = max(1.0, float(np.abs(finite).max(initial=0.0)))
    signed = bool((finite < 0).any())
    zero = top + (HIGH / 2 if signed else HIGH)
    room = HIGH / 2 if signed else HIGH
    canvas.text(name, left - 34, top + HIGH / 2 + 5, anchor="end")
    canvas.boxes([(left, top, len(values) * step, HIGH)], "tile")
    canvas.text(f"{most:.2g}", left - 6, top + 8, "faint", "end", SMALL)
    canvas.text(f"-{most:.2g}" if signed else "0", left - 6, top + HIGH, "faint", "end", SMALL)
    canvas.line((left, zero, left + len(values) * step, zero), "faint", 0.6, 1.0)
    for i, value in enumerate(values):
        share = float(finite[i]) / most
        high = max(abs(share) * room, 1.0)  # a zero is still a line, for its tooltip
        box = (left + i * step + 2, zero if share < 0 else zero - high, step - 4, high)
        tooltip = f"{name}, {style.isolated(columns[i])}: {value!s}"
        canvas.boxes([box], "rust" if share < 0 else "ink", 0.85, tooltip, f"{name} {i}")
