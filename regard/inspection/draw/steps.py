"""Decoding step by step: a row per target token with its probability, its cross-attention and the alternatives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.style import FONT, LONGEST, MARGIN
from regard.inspection.trace.translation import Alternative

ROW, SMALL, SURE = 26.0, 12.0, 80.0
CELL, LEAST, ACROSS = 30.0, 8.0, 720.0
"""The width of a source token, its minimum, and the width of a strip, above which tokens get narrower."""
OTHERS = 3
"""Alternatives that are drawn in a row."""


def draw_steps(
    tokens: Sequence[str],
    probabilities: Sequence[float],
    alternatives: Sequence[Sequence[Alternative]],
    source: Sequence[str],
    weights: np.ndarray | None,
    title: str = "",
) -> Canvas:
    """`weights` are (tokens, source); None where the model has no attention. Tooltips hold the exact values."""
    canvas = Canvas("regard-steps", "decoding step by step", style.shortened(title, 4 * LONGEST))
    if title:
        canvas.text(canvas.title, MARGIN, MARGIN + FONT, bold=True)
    labels, above = [style.label(token) for token in tokens], [style.label(token) for token in source]
    word = MARGIN + 30
    sure = word + max(map(style.length, labels), default=0.0) * 1.1 + 14
    left = sure + SURE + 56
    cell = min(CELL, max(LEAST, ACROSS / max(1, len(source))))
    others = left + (len(source) * cell + 24 if weights is not None else 0.0)
    top = (
        MARGIN
        + (2 * FONT if title else 0)
        + 14
        + (style.column_label_height(above, cell) if weights is not None else FONT)
    )
    if weights is not None:
        rotated = style.needs_rotation(above, cell)
        for s, name in enumerate(above):
            x = left + (s + 0.5) * cell
            canvas.text(name, x, top - 8, anchor="start" if rotated else "middle", size=SMALL, rotated=rotated)
    canvas.text("probability", sure, top - 8, "faint", size=SMALL)
    canvas.text("other candidates", others, top - 8, "faint", size=SMALL)
    for t, (label, token, probability) in enumerate(zip(labels, tokens, probabilities)):
        y = top + t * ROW
        canvas.text(str(t), MARGIN, y + 16, "faint", size=SMALL)
        tooltip = f"step {t}: {style.isolated(token)}: {_exact(probability)}"
        canvas.text(label, word, y + 17, "ink", bold=True, tooltip=tooltip, at=f"token {t}")
        canvas.boxes([(sure, y + 5, SURE, ROW - 12)], "tile", tooltip=tooltip)
        canvas.boxes([(sure, y + 5, SURE * min(1.0, max(0.0, probability)), ROW - 12)], "ink", 0.85, tooltip)
        canvas.text(_percent(probability), sure + SURE + 8, y + 16, "faint", size=SMALL)
        if weights is not None:
            _strip(canvas, weights[t], source, token, t, left, y, cell)
        likely = alternatives[t] if t < len(alternatives) else []
        _others(canvas, [one for one in likely if one.token != token][:OTHERS], t, others, y)
    return canvas


def _strip(
    canvas: Canvas,
    weights: np.ndarray,
    source: Sequence[str],
    token: str,
    step: int,
    left: float,
    y: float,
    cell: float,
) -> None:
    canvas.boxes([(left, y + 2, len(source) * cell, ROW - 6)], "tile")
    shares = np.nan_to_num(weights, nan=0.0, posinf=0.0, neginf=0.0).clip(0, 1)
    for s, name in enumerate(source):
        words = f"{style.isolated(name)} → {style.isolated(token)}: {weights[s]!s}"
        canvas.boxes([(left + s * cell, y + 2, cell - 1, ROW - 6)], "ink", float(shares[s]), words, f"{step} {s}")


def _others(canvas: Canvas, others: Sequence[Alternative], step: int, x: float, y: float) -> None:
    for rank, one in enumerate(others):
        label = f"{style.label(one.token)} {_percent(one.probability)}"
        tooltip = f"step {step}, or {style.isolated(one.token)}: {_exact(one.probability)}"
        canvas.text(label, x, y + 16, "faint", size=SMALL, tooltip=tooltip, at=f"or {step} {rank}")
        x += style.length(label) * SMALL / FONT + 16


def _percent(value: float) -> str:
    return "<1 %" if 0 < value < 0.005 else f"{100 * value:.0f} %"


def _exact(value: float) -> str:
    return str(np.float32(value))
