"""A reliability diagram: the share that is right by confidence, in panels. On the diagonal both agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.style import FONT, MARGIN

SIDE, GAP, SMALL = 220.0, 62.0, 11.0
BARS = 26.0
"""The height of the bars that say how many there are."""

Point = tuple[float, float, int]
"""Confidence, share of right ones, and how many they are."""


def draw_reliability(title: str, panels: Mapping[str, Sequence[Point]]) -> Canvas:
    """Tooltips hold the exact numbers."""
    canvas = Canvas("reliability", title, title)
    canvas.text(title, MARGIN, MARGIN + FONT, bold=True)
    top = MARGIN + 3.4 * FONT
    for number, (name, points) in enumerate(panels.items()):
        _panel(canvas, name, points, MARGIN + 34 + number * (SIDE + GAP), top + FONT)
    return canvas


def _panel(canvas: Canvas, name: str, points: Sequence[Point], left: float, top: float) -> None:
    bottom = top + SIDE
    canvas.text(name, left, top - 10)
    canvas.boxes([(left, top, SIDE, SIDE)], "tile")
    for tick in (0.0, 0.5, 1.0):
        canvas.text(f"{tick:g}", left - 6, bottom - tick * SIDE + 4, "faint", "end", SMALL)
        canvas.text(f"{tick:g}", left + tick * SIDE, bottom + BARS + 2 + FONT, "faint", "middle", SMALL)
    canvas.text("confidence", left + SIDE / 2, bottom + BARS + 2 + 2.2 * FONT, "faint", "middle", SMALL)
    canvas.text("right", left - 6, bottom - SIDE / 4 + 4, "faint", "end", SMALL)
    canvas.line((left, bottom, left + SIDE, top), "faint", 0.6, 1.0)
    most = max((count for *_, count in points), default=1)
    drawn = [(left + confidence * SIDE, bottom - right * SIDE) for confidence, right, _ in points]
    for (x, y), (to_x, to_y) in zip(drawn, drawn[1:]):
        canvas.line((x, y, to_x, to_y), "ink", 0.9, 2.0)
    for (x, y), (confidence, right, count) in zip(drawn, points):
        about = f"{name}: confidence {confidence:.3f}, right {right:.3f}, {count:,}"
        canvas.boxes([(x - 4, y - 4, 8, 8)], "ink", 1.0, about)
        canvas.boxes([(x - 5, bottom + 2, 10, max(1.0, BARS * count / most))], "veil", 0.7, about)
