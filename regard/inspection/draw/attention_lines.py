"""One attention head as lines between tokens: what was looked at is on the left, who looked on the right.

The darker a line, the greater its weight. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.inspection.draw import style as paper
from regard.inspection.draw.canvas import Sheet
from regard.inspection.draw.style import FONT, LONGEST, MARGIN

ROW, ACROSS = 26.0, 220.0
FAINTEST = 0.004
"""A line under this opacity would not be seen; it is drawn only where a page may make it darker."""


def lines(
    weights: np.ndarray, keys: Sequence[str], queries: Sequence[str], title: str = "", every: bool = False
) -> Sheet:
    """Of (queries, keys). Tooltips hold the exact weights; with `every`, lines that cannot be seen are there too."""
    if weights.shape != (len(queries), len(keys)):
        raise ValueError(f"weights of {weights.shape} do not fit {len(queries)} queries and {len(keys)} keys")
    sheet = Sheet("regard-lines", "attention", paper.shortened(title, 4 * LONGEST))
    left = MARGIN + max(map(paper.length, map(paper.label, keys)), default=0.0)
    right, top = left + 20 + ACROSS, MARGIN + (2 * FONT if title else 0) + ROW / 2
    if title:
        sheet.words(sheet.title, MARGIN, MARGIN + FONT, bold=True)
    # The shorter side stands in the middle of the longer.
    high = max(len(keys), len(queries))
    tops = [top + (high - len(side)) * ROW / 2 for side in (keys, queries)]
    for i, key in enumerate(keys):
        sheet.words(paper.label(key), left, tops[0] + i * ROW + 5, anchor="end", at=f"key {i}", tooltip=key)
    for j, query in enumerate(queries):
        sheet.words(paper.label(query), right + 20, tops[1] + j * ROW + 5, at=f"query {j}", tooltip=query)
    shares = np.nan_to_num(weights, nan=0.0, posinf=0.0, neginf=0.0).clip(0, 1)
    for (j, i), value in np.ndenumerate(weights):
        if every or shares[j, i] >= FAINTEST:
            words = f"{paper.isolated(keys[i])} → {paper.isolated(queries[j])}"
            ends = left + 8, tops[0] + i * ROW, right + 12, tops[1] + j * ROW
            sheet.line(ends, "ink", float(shares[j, i]), 3.0, f"{words}: {value!s}", f"{j} {i}")
    sheet.boxes([(left, top + high * ROW - ROW / 2, 0.0, 0.0)], "tile")
    return sheet
