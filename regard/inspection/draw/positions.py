"""The vectors that tell a model which position it is: a row for each position, a column for each number of its vector.

Above zero is drawn in ink and below in rust, the farther from zero the darker. Knows nothing of models.
"""

from __future__ import annotations

import numpy as np

from regard.inspection.draw import style as paper
from regard.inspection.draw.canvas import Sheet
from regard.inspection.draw.style import FONT, LONGEST, MARGIN

ROWS, COLUMNS, CELL = 48, 64, 11.0
"""Positions and numbers of a vector that are drawn."""
SMALL = 11.0


def positions(values: np.ndarray, title: str = "") -> Sheet:
    """Of (positions, width). Of wide vectors some columns are drawn (`spread`). Tooltips hold the exact values."""
    sheet = Sheet("regard-positions", "positional encoding", paper.shortened(title, 4 * LONGEST))
    shown = values[:ROWS]
    columns = spread(values.shape[1])
    finite = np.nan_to_num(shown, nan=0.0, posinf=0.0, neginf=0.0)
    darkest = float(np.abs(finite).max(initial=0.0)) or 1.0
    left, top = MARGIN + 30, MARGIN + (2 * FONT if title else 0) + 30
    if title:
        sheet.words(sheet.title, MARGIN, MARGIN + FONT, bold=True)
    wide, high = len(columns) * CELL, len(shown) * CELL
    sheet.boxes([(left, top, wide, high)], "tile")
    sheet.words("number of the vector", left, top - 20, "faint", size=SMALL)
    for i in range(0, len(columns), 8):
        sheet.words(str(columns[i]), left + (i + 0.5) * CELL, top - 5, "faint", "middle", SMALL)
    for j, row in enumerate(shown):
        if j % 8 == 0:
            sheet.words(str(j), left - 6, top + (j + 0.8) * CELL, "faint", "end", SMALL)
        for i, column in enumerate(columns):
            share = float(finite[j, column]) / darkest
            sheet.boxes(
                [(left + i * CELL, top + j * CELL, CELL - 0.5, CELL - 0.5)],
                "rust" if share < 0 else "ink",
                abs(share),
                f"position {j}, number {column}: {row[column]!s}",
            )
    said = f"positions 0 to {len(shown) - 1}, {len(columns)} of {values.shape[1]} numbers; darkest: ±{darkest:.3g}"
    sheet.words(said, left, top + high + 22, "faint", size=SMALL)
    return sheet


def spread(width: int, most: int = COLUMNS) -> list[int]:
    """Which columns to draw: all, or pairs of neighbours spread evenly: a sine and its cosine stand side by side."""
    if width <= most:
        return list(range(width))
    firsts = np.linspace(0, width // 2 - 1, most // 2).round().astype(int) * 2
    return [column for first in firsts.tolist() for column in (first, first + 1)]
