"""All attention heads as small heatmaps: a row per layer, a column per head. Keys run across, queries down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
MANY = 192
"""With more heads than this a picture is an overview: smaller heatmaps, of at most FEW cells across and down."""
FEW, SMALL_SIDE, SMALL_GAP = 8, 40.0, 4.0

Block = tuple[str, str, Mapping[int, np.ndarray]]
"""The heading, the kind of attention, and (heads, queries, keys) of each layer, by its number."""


def draw_grid(blocks: Sequence[Block], title: str = "") -> Canvas:
    """A block per kind of attention. The background of a head is named `pick KIND LAYER HEAD`."""
    canvas = Canvas("regard-grid", "attention of all layers and heads", style.shortened(title, 4 * LONGEST))
    y = MARGIN + (2 * FONT if title else 0)
    many = is_large(len(weights) for _, _, layers in blocks for weights in layers.values())
    if title:
        canvas.text(canvas.title, MARGIN, MARGIN + FONT, bold=True)
    for name, key, layers in blocks:
        canvas.text(name, MARGIN, y + FONT)
        y += 2 * FONT
        y = (_overview if many else _grid)(canvas, key, layers, y) + FONT
    return canvas


def _grid(canvas: Canvas, key: str, layers: Mapping[int, np.ndarray], y: float) -> float:
    for number, weights in layers.items():
        for head, one in enumerate(weights):
            x = MARGIN + head * (SIDE + GAP)
            _head(canvas, coarse(one), (x, y, SIDE, SIDE), f"{key} {number} {head}", number, head)
            canvas.text(f"layer {number}, head {head}", x, y + SIDE + 12, "faint", size=SMALL)
        y += SIDE + BELOW
    return y


def _overview(canvas: Canvas, key: str, layers: Mapping[int, np.ndarray], y: float) -> float:
    """The same for a model of hundreds of heads, with the numbers of layers and heads at the edges."""
    step, left = SMALL_SIDE + SMALL_GAP, MARGIN + 5 * FONT
    for head in range(max(map(len, layers.values()))):
        canvas.text(f"head {head}", left + head * step, y + FONT, "faint", size=SMALL)
    y += 1.5 * FONT
    for number, weights in layers.items():
        canvas.text(f"layer {number}", MARGIN, y + SMALL_SIDE / 2 + SMALL / 2, "faint", size=SMALL)
        for head, one in enumerate(weights):
            box = (left + head * step, y, SMALL_SIDE, SMALL_SIDE)
            _head(canvas, coarse(one, FEW), box, f"{key} {number} {head}", number, head)
        y += step
    return y


def is_large(counts: Iterable[int]) -> bool:
    """Whether a model with so many heads in each layer is shown by an overview."""
    return sum(counts) > MANY


def _head(canvas: Canvas, values: np.ndarray, box: Box, key: str, layer: int, head: int) -> None:
    canvas.boxes([box], "tile", tooltip=f"layer {layer}, head {head}", at=f"pick {key}")
    x, y, side, _ = box
    values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0).clip(0, 1)
    high, wide = side / values.shape[0], side / values.shape[1]
    shades: dict[int, list[Box]] = {}
    for (j, i), value in np.ndenumerate(values):
        if (shade := round(float(value) * SHADES)) > 0:
            shades.setdefault(shade, []).append((x + i * wide, y + j * high, wide, high))
    for shade, boxes in sorted(shades.items()):
        canvas.boxes(boxes, "ink", shade / SHADES)


def coarse(weights: np.ndarray, most: int = MOST) -> np.ndarray:
    """Max-pooled to at most `most` rows and columns."""
    for axis in (0, 1):
        size = weights.shape[axis]
        if size > most:
            starts = np.arange(most) * size // most
            weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights
