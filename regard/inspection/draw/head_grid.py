"""All attention heads as small heatmaps: a row per layer, a column per head. Keys run across, queries down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Box, Canvas
from regard.inspection.draw.style import FONT, LONGEST, MARGIN

SIDE, GAP, BELOW = 96.0, 12.0, 20.0
MOST = 48
"""The most cells of a heatmap across and down. Longer texts are max-pooled."""
SHADES = 12
"""Cells of the same shade are one mark, which keeps the file small."""
SMALL = 11.0

Block = tuple[str, str, Mapping[int, np.ndarray]]
"""The heading, the kind of attention, and (heads, queries, keys) of each layer, by its number."""


def draw_grid(blocks: Sequence[Block], title: str = "") -> Canvas:
    """A block per kind of attention. The background of a head is named `pick KIND LAYER HEAD`."""
    canvas = Canvas("regard-grid", "attention of all layers and heads", style.shortened(title, 4 * LONGEST))
    y = MARGIN + (2 * FONT if title else 0)
    if title:
        canvas.text(canvas.title, MARGIN, MARGIN + FONT, bold=True)
    for name, key, layers in blocks:
        canvas.text(name, MARGIN, y + FONT)
        y += 2 * FONT
        for number, weights in layers.items():
            for head, one in enumerate(weights):
                _head(canvas, one, MARGIN + head * (SIDE + GAP), y, f"{key} {number} {head}", number, head)
            y += SIDE + BELOW
        y += FONT
    return canvas


def _head(canvas: Canvas, weights: np.ndarray, x: float, y: float, key: str, layer: int, head: int) -> None:
    name = f"layer {layer}, head {head}"
    canvas.boxes([(x, y, SIDE, SIDE)], "tile", tooltip=name, at=f"pick {key}")
    values = coarse(np.nan_to_num(weights, nan=0.0, posinf=0.0, neginf=0.0).clip(0, 1))
    high, wide = SIDE / values.shape[0], SIDE / values.shape[1]
    shades: dict[int, list[Box]] = {}
    for (j, i), value in np.ndenumerate(values):
        if (shade := round(float(value) * SHADES)) > 0:
            shades.setdefault(shade, []).append((x + i * wide, y + j * high, wide, high))
    for shade, boxes in sorted(shades.items()):
        canvas.boxes(boxes, "ink", shade / SHADES)
    canvas.text(f"layer {layer}, head {head}", x, y + SIDE + 12, "faint", size=SMALL)


def coarse(weights: np.ndarray, most: int = MOST) -> np.ndarray:
    """Max-pooled to at most `most` rows and columns."""
    for axis in (0, 1):
        size = weights.shape[axis]
        if size > most:
            starts = np.arange(most) * size // most
            weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights
