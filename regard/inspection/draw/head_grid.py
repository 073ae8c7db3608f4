"""All layers and heads at once: a small matrix for each head, a row a layer, a column a head.

Keys run across and queries down, and the darker, the greater the weight. A picture to see where to look closer: values
are not told here. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.inspection.draw import style as paper
from regard.inspection.draw.canvas import Box, Sheet
from regard.inspection.draw.style import FONT, LONGEST, MARGIN

SIDE, GAP = 96.0, 12.0
MOST = 48
"""Cells of a small matrix across and down. Of longer texts the greatest weight of each block of cells is drawn."""
SHADES = 12
"""Cells of about the same darkness are one mark: a picture of thousands of them stays small."""
SMALL = 12.0

Block = tuple[str, str, Sequence[np.ndarray]]
"""What it is called, what begins its name, and (heads, queries, keys) for each of its layers."""


def grid(blocks: Sequence[Block], title: str = "") -> Sheet:
    """A block for each kind of attention. A head's paper is named `pick BLOCK LAYER HEAD`."""
    sheet = Sheet("regard-grid", "attention of all layers and heads", paper.shortened(title, 4 * LONGEST))
    y = MARGIN + (2 * FONT if title else 0)
    left = MARGIN + 66
    if title:
        sheet.words(sheet.title, MARGIN, MARGIN + FONT, bold=True)
    for name, key, layers in blocks:
        sheet.words(name, MARGIN, y + FONT)
        y += 2 * FONT
        for head in range(max(len(weights) for weights in layers)):
            sheet.words(f"head {head}", left + head * (SIDE + GAP), y + 8, "faint", size=SMALL)
        y += 16
        for number, weights in enumerate(layers):
            sheet.words(f"layer {number}", MARGIN, y + SIDE / 2, "faint", size=SMALL)
            for head, one in enumerate(weights):
                _small(sheet, one, left + head * (SIDE + GAP), y, f"{key} {number} {head}", number, head)
            y += SIDE + GAP
        y += FONT
    return sheet


def _small(sheet: Sheet, weights: np.ndarray, x: float, y: float, key: str, layer: int, head: int) -> None:
    named = f"layer {layer}, head {head}"
    sheet.boxes([(x, y, SIDE, SIDE)], "tile", tooltip=named, at=f"pick {key}")
    values = coarse(np.nan_to_num(weights, nan=0.0, posinf=0.0, neginf=0.0).clip(0, 1))
    high, wide = SIDE / values.shape[0], SIDE / values.shape[1]
    shades: dict[int, list[Box]] = {}
    for (j, i), value in np.ndenumerate(values):
        if (shade := round(float(value) * SHADES)) > 0:
            shades.setdefault(shade, []).append((x + i * wide, y + j * high, wide, high))
    for shade, boxes in sorted(shades.items()):
        sheet.boxes(boxes, "ink", shade / SHADES)


def coarse(weights: np.ndarray, most: int = MOST) -> np.ndarray:
    """At most `most` rows and columns, each the greatest of those it stands for."""
    for axis in (0, 1):
        size = weights.shape[axis]
        if size > most:
            starts = np.arange(most) * size // most
            weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights
