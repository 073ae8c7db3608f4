"""One attention head as lines between tokens: the attending tokens (queries) are on the right, what they attend to on
the left; the larger the weight, the stronger the line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.style import FONT, LONGEST, MARGIN

ROW, ACROSS, SMALL = 26.0, 220.0, 12.0
SIDES = ("attended to", "attending token")
FAINTEST = 0.004
"""Lines below this opacity are invisible; they are drawn only on a page that may switch to another head."""


def draw_lines(
    weights: np.ndarray, keys: Sequence[str], queries: Sequence[str], title: str = "", every: bool = False
) -> Canvas:
    """`weights` are (queries, keys). Tooltips hold the exact weights; `every` includes invisible lines."""
    if weights.shape != (len(queries), len(keys)):
        raise ValueError(f"weights of {weights.shape} do not fit {len(queries)} queries and {len(keys)} keys")
    canvas = Canvas("regard-lines", "attention", style.shortened(title, 4 * LONGEST))
    left = MARGIN + max(map(style.length, map(style.label, keys)), default=0.0)
    left = max(left, MARGIN + style.length(SIDES[0]) * SMALL / FONT)
    right, top = left + 20 + ACROSS, MARGIN + (2 * FONT if title else 0) + 2 * FONT + ROW / 2
    if title:
        canvas.text(canvas.title, MARGIN, MARGIN + FONT, bold=True)
    for name, x, anchor in zip(SIDES, (left, right + 20), ("end", "start")):
        canvas.text(name, x, top - FONT - 10, "faint", anchor, SMALL)
    canvas.text("←", (left + right + 20) / 2, top - FONT - 10, "faint", "middle", SMALL)
    # The shorter side is centred.
    high = max(len(keys), len(queries))
    tops = [top + (high - len(side)) * ROW / 2 for side in (keys, queries)]
    for i, key in enumerate(keys):
        canvas.text(style.label(key), left, tops[0] + i * ROW + 5, anchor="end", at=f"key {i}", tooltip=key)
    for j, query in enumerate(queries):
        canvas.text(style.label(query), right + 20, tops[1] + j * ROW + 5, at=f"query {j}", tooltip=query)
    shares = np.nan_to_num(weights, nan=0.0, posinf=0.0, neginf=0.0).clip(0, 1)
    for (j, i), value in np.ndenumerate(weights):
        if every or shares[j, i] >= FAINTEST:
            words = f"{style.isolated(keys[i])} → {style.isolated(queries[j])}"
            ends = left + 8, tops[0] + i * ROW, right + 12, tops[1] + j * ROW
            canvas.line(ends, "ink", float(shares[j, i]), 3.0, f"{words}: {value!s}", f"{j} {i}")
    canvas.boxes([(left, top + high * ROW - ROW / 2, 0.0, 0.0)], "tile")
    return canvas
