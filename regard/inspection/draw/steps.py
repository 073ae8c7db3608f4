"""A translation step by step: a row for each token that was written, how sure the model was of it, where it looked at
the source just then, and what else it thought of. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.inspection.draw import style as paper
from regard.inspection.draw.canvas import Sheet
from regard.inspection.draw.style import FONT, LONGEST, MARGIN

ROW, SMALL, SURE = 26.0, 12.0, 80.0
CELL, LEAST, ACROSS = 30.0, 8.0, 720.0
"""A token of the source is so wide, or less where there are many: a strip is at most `ACROSS` wide."""
OTHERS = 3
"""Of what else it thought of so much stands in a row."""


@dataclass
class Next:
    """A token that may come next."""

    id: int
    token: str
    probability: float


def steps(
    tokens: Sequence[str],
    probabilities: Sequence[float],
    alternatives: Sequence[Sequence[Next]],
    source: Sequence[str],
    weights: np.ndarray | None,
    title: str = "",
) -> Sheet:
    """`weights` are (tokens, source); None where the model has no attention. Tooltips hold the exact values."""
    sheet = Sheet("regard-steps", "decoding step by step", paper.shortened(title, 4 * LONGEST))
    if title:
        sheet.words(sheet.title, MARGIN, MARGIN + FONT, bold=True)
    labels, above = [paper.label(token) for token in tokens], [paper.label(token) for token in source]
    word = MARGIN + 30
    sure = word + max(map(paper.length, labels), default=0.0) * 1.1 + 14
    left = sure + SURE + 56
    cell = min(CELL, max(LEAST, ACROSS / max(1, len(source))))
    others = left + (len(source) * cell + 24 if weights is not None else 0.0)
    top = MARGIN + (2 * FONT if title else 0) + 14 + (paper.room_on_top(above, cell) if weights is not None else FONT)
    if weights is not None:
        leans = paper.leans(above, cell)
        for s, name in enumerate(above):
            x = left + (s + 0.5) * cell
            sheet.words(name, x, top - 8, anchor="start" if leans else "middle", size=SMALL, leans=leans)
    sheet.words("sure", sure, top - 8, "faint", size=SMALL)
    sheet.words("or", others, top - 8, "faint", size=SMALL)
    for t, (label, token, probability) in enumerate(zip(labels, tokens, probabilities)):
        y = top + t * ROW
        sheet.words(str(t), MARGIN, y + 16, "faint", size=SMALL)
        told = f"step {t}: {paper.isolated(token)}: {_exact(probability)}"
        sheet.words(label, word, y + 17, "ink", bold=True, tooltip=told, at=f"token {t}")
        sheet.boxes([(sure, y + 5, SURE, ROW - 12)], "tile", tooltip=told)
        sheet.boxes([(sure, y + 5, SURE * min(1.0, max(0.0, probability)), ROW - 12)], "ink", 0.85, told)
        sheet.words(_percent(probability), sure + SURE + 8, y + 16, "faint", size=SMALL)
        if weights is not None:
            _strip(sheet, weights[t], source, token, t, left, y, cell)
        thought = alternatives[t] if t < len(alternatives) else []
        _others(sheet, [one for one in thought if one.token != token][:OTHERS], t, others, y)
    return sheet


def _strip(
    sheet: Sheet, weights: np.ndarray, source: Sequence[str], token: str, step: int, left: float, y: float, cell: float
) -> None:
    sheet.boxes([(left, y + 2, len(source) * cell, ROW - 6)], "tile")
    shares = np.nan_to_num(weights, nan=0.0, posinf=0.0, neginf=0.0).clip(0, 1)
    for s, name in enumerate(source):
        words = f"{paper.isolated(name)} → {paper.isolated(token)}: {weights[s]!s}"
        sheet.boxes([(left + s * cell, y + 2, cell - 1, ROW - 6)], "ink", float(shares[s]), words, f"{step} {s}")


def _others(sheet: Sheet, others: Sequence[Next], step: int, x: float, y: float) -> None:
    for rank, one in enumerate(others):
        shown = f"{paper.label(one.token)} {_percent(one.probability)}"
        told = f"step {step}, or {paper.isolated(one.token)}: {_exact(one.probability)}"
        sheet.words(shown, x, y + 16, "faint", size=SMALL, tooltip=told, at=f"or {step} {rank}")
        x += paper.length(shown) * SMALL / FONT + 16


def _percent(value: float) -> str:
    return "<1 %" if 0 < value < 0.005 else f"{100 * value:.0f} %"


def _exact(value: float) -> str:
    return str(np.float32(value))
