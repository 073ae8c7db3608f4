"""A positional encoding as a heatmap: a row per position, a column per dimension.

Purple (ink) is positive, orange (rust) negative; the stronger the colour, the larger the magnitude.
"""

from __future__ import annotations

import numpy as np

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.style import FONT, LONGEST, MARGIN

ROWS, COLUMNS, CELL = 48, 64, 11.0
"""The most positions and dimensions that are drawn."""
SMALL = 11.0


def draw_positions(values: np.ndarray, title: str = "") -> Canvas:
    """`values` are (positions, width); of wide vectors, a sample of the columns is drawn. Tooltips hold the values."""
    canvas = Canvas("regard-positions", "positional encoding", style.shortened(title, 4 * LONGEST))
    drawn = values[:ROWS]
    columns = spread(values.shape[1])
    finite = np.nan_to_num(drawn, nan=0.0, posinf=0.0, neginf=0.0)
    darkest = float(np.abs(finite).max(initial=0.0)) or 1.0
    left, top = MARGIN + 30, MARGIN + (2 * FONT if title else 0) + 30
    if title:
        canvas.text(canvas.title, MARGIN, MARGIN + FONT, bold=True)
    wide, high = len(columns) * CELL, len(drawn) * CELL
    canvas.boxes([(left, top, wide, high)], "tile")
    canvas.text("dimension", left, top - 20, "faint", size=SMALL)
    for i in range(0, len(columns), 8):
        canvas.text(str(columns[i]), left + (i + 0.5) * CELL, top - 5, "faint", "middle", SMALL)
    for j, row in enumerate(drawn):
        if j % 8 == 0:
            canvas.text(str(j), left - 6, top + (j + 0.8) * CELL, "faint", "end", SMALL)
        for i, column in enumerate(columns):
            share = float(finite[j, column]) / darkest
            canvas.boxes(
                [(left + i * CELL, top + j * CELL, CELL - 0.5, CELL - 0.5)],
                "rust" if share < 0 else "ink",
                abs(share),
                f"position {j}, dimension {column}: {row[column]!s}",
                f"position {j}",
            )
    note = (
        f"positions 0 to {len(drawn) - 1}, {len(columns)} of {values.shape[1]} dimensions; full colour: ±{darkest:.3g}"
    )
    canvas.text(note, left, top + high + 22, "faint", size=SMALL)
    return canvas


def cosine_similarity(values: np.ndarray, position: int) -> np.ndarray:
    """Of each row to one of them; 0 for a row of zeros."""
    norms = np.linalg.norm(values, axis=1)
    products = values @ values[position]
    return np.divide(products, norms * norms[position], out=np.zeros_like(products), where=norms * norms[position] > 0)


def spread(width: int, most: int = COLUMNS) -> list[int]:
    """The columns to draw: all, or evenly spread pairs of neighbours, so that a sine and its cosine stay together."""
    if width <= most:
        return list(range(width))
    firsts = np.linspace(0, width // 2 - 1, most // 2).round().astype(int) * 2
    return [column for first in firsts.tolist() for column in (first, first + 1)]
