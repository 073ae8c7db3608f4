"""The nearest training examples as a list: similarity, and both sides of the example with the word in its context."""

from __future__ import annotations

from collections.abc import Sequence

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.style import FONT, LONGEST, MARGIN
from regard.inspection.trace.base import SOURCE
from regard.inspection.trace.near import Near

ROW, BAR, SMALL, AROUND = 56.0, 70.0, 11.0, 7


def draw_near(found: Near, title: str = "") -> Canvas:
    canvas = Canvas("regard-near", "nearest training examples", style.shortened(title, 4 * LONGEST))
    y = MARGIN
    if canvas.title:
        canvas.text(canvas.title, MARGIN, y + FONT, bold=True)
        y += 2 * FONT
    left = MARGIN + BAR + 60
    for number, one in enumerate(found.neighbours):
        tooltip = f"cosine similarity {one.similarity:.4f}: {' '.join(one.source)} | {' '.join(one.target)}"
        canvas.boxes([(MARGIN, y + 8, BAR, 10)], "tile")
        canvas.boxes(
            [(MARGIN, y + 8, BAR * min(1.0, max(0.0, one.similarity)), 10)], "ink", 0.85, tooltip, f"near {number}"
        )
        canvas.text(f"{one.similarity:.2f}", MARGIN + BAR + 8, y + 18, size=SMALL)
        of_source = found.side == SOURCE
        _line(canvas, one.source, one.word if of_source else None, left, y + 18)
        _line(canvas, one.target, None if of_source else one.word, left, y + 38)
        y += ROW
    canvas.boxes([(MARGIN, y, 0.0, 0.0)], "tile")
    return canvas


def _line(canvas: Canvas, words: Sequence[str], marked: int | None, x: float, y: float) -> None:
    """The words around the marked one, or the first ones."""
    start = max(0, (marked or 0) - AROUND)
    shown = words[start : start + 2 * AROUND + 1]
    pieces = ["…"] * (start > 0) + list(shown) + ["…"] * (start + len(shown) < len(words))
    at = None if marked is None else marked - start + (start > 0)
    for number, word in enumerate(pieces):
        label = style.label(word)
        own = number == at
        canvas.text(label, x, y, "ink" if own else "text" if marked is not None else "faint", bold=own)
        x += style.length(label) * (1.15 if own else 1.0) + 7
