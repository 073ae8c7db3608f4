"""The arithmetic of one attention head as a worked example: a stage below the other, vectors as cells, weights as bars.

Purple (ink) is positive, orange (rust) negative; the stronger the colour, the larger the magnitude. Tooltips hold every
exact value.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.style import FONT, LONGEST, MARGIN
from regard.inspection.trace.arithmetic import MASKED, Calculation, Row, Stage
from regard.inspection.trace.base import KINDS

CELL, HIGH, GAP, SMALL = 9.0, 14.0, 1.0, 12.0
ACROSS = 64
"""Cells per line. A longer vector continues in the next line; of a vector per token, only the first line is drawn."""
BAR, ROW = 150.0, 20.0
MOST = 24
"""Keys that are drawn: those with the largest weights, in their order."""
LINE = 92
"""Characters per line of text."""


def draw_calculation(calculation: Calculation) -> Canvas:
    """All stages in one picture."""
    title = title_of_calculation(calculation)
    canvas = Canvas("regard-numbers", "the arithmetic of an attention head", style.shortened(title, 6 * LONGEST))
    canvas.text(canvas.title, MARGIN, MARGIN + FONT, bold=True)
    y = MARGIN + 3.2 * FONT
    left = _label_width(calculation.stages)
    for number, one in enumerate(calculation.stages, 1):
        y = _stage(canvas, calculation, one, number, y, left) + 2.6 * FONT
    canvas.text(agreement(calculation), MARGIN, y, "faint", size=SMALL)
    return canvas


def draw_stage(calculation: Calculation, number: int) -> Canvas:
    """One stage by itself, counted from 0."""
    one = calculation.stages[number]
    canvas = Canvas("regard-numbers", f"{one.name}: {one.formula}")
    canvas.text(one.formula, MARGIN, 1.5 * FONT, "ink")
    _rows(canvas, calculation, one, number + 1, 2.5 * FONT, _label_width(calculation.stages))
    return canvas


def title_of_calculation(calculation: Calculation) -> str:
    """Which head and query it is of."""
    which = f"layer {calculation.layer}" + (f", head {calculation.head}" if calculation.heads > 1 else "")
    return f"{style.isolated(calculation.query)}: {KINDS.get(calculation.kind, calculation.kind)}, {which}"


def agreement(calculation: Calculation) -> str:
    return f"The model's own result differs from the last line by at most {calculation.difference:.1e}."


def strongest_keys(weights: np.ndarray, most: int = MOST) -> set[int]:
    """The keys with the largest weights."""
    finite = np.nan_to_num(weights, nan=0.0)
    return set(np.argsort(-finite, kind="stable")[:most].tolist())


def _label_width(stages: Sequence[Stage]) -> float:
    """The x where cells begin, the same in all stages: after the longest label."""
    labels = (row.label for stage in stages for row in stage.rows)
    return MARGIN + max((style.length(style.label(label)) * SMALL / FONT for label in labels), default=0.0) + 10


def _stage(canvas: Canvas, calculation: Calculation, stage: Stage, number: int, y: float, left: float) -> float:
    canvas.text(f"{number}  {stage.name}", MARGIN, y, bold=True, at=f"stage {number}")
    canvas.text(stage.formula, MARGIN, y + 1.5 * FONT, "ink")
    y += 1.5 * FONT
    for line in textwrap.wrap(stage.sentence, LINE):
        y += 1.3 * FONT
        canvas.text(line, MARGIN, y, "faint", size=SMALL)
    return _rows(canvas, calculation, stage, number, y + FONT, left)


def _rows(canvas: Canvas, calculation: Calculation, stage: Stage, number: int, y: float, left: float) -> float:
    """Draws the rows below each other; returns the y where the last one ends."""
    drawn = strongest_keys(calculation.weights)
    rows = [row for row in stage.rows if row.key is None or row.key in drawn]
    strips, bars = ([row for row in rows if (len(row.values) > 1) == long] for long in (True, False))
    darkest, longest = _greatest(strips), _greatest(bars)
    for place, row in enumerate(rows):
        at = f"{number} {place}" if row.key is None else f"{number} {place} key {row.key}"
        long = len(row.values) > 1
        y = _strip(canvas, row, y, left, darkest, at) if long else _bar(canvas, row, y, left, longest, at)
    notes = [f"full colour: ±{darkest:.3g}"] if strips else []
    if any(len(_drawn(row)) < len(row.values) for row in rows):
        notes.insert(0, f"the first {ACROSS} of {max(len(row.values) for row in rows)} numbers of each token")
    if len(rows) < len(stage.rows):
        notes.insert(0, f"the {len(drawn)} of {len(calculation.keys)} tokens with the largest weights")
    if stage.note:
        notes.insert(0, stage.note)
    if notes:
        y += 14
        canvas.text("; ".join(notes), left, y, "faint", size=SMALL)
    return y


def _greatest(rows: Sequence[Row]) -> float:
    finite = [np.abs(values[np.isfinite(values)]).max(initial=0.0) for values in map(_drawn, rows)]
    return float(max(finite, default=0.0)) or 1.0


def _drawn(row: Row) -> np.ndarray:
    """The numbers that are drawn: of a token's vector, one line."""
    return row.values if row.key is None else row.values[:ACROSS]


def _strip(canvas: Canvas, row: Row, y: float, left: float, darkest: float, at: str) -> float:
    label = style.label(row.label)
    canvas.text(label, left - 8, y + HIGH - 3, "text", "end", SMALL, tooltip=row.note or row.label, at=at)
    values = _drawn(row)
    lines = -(-len(values) // ACROSS)
    for line in range(lines):
        wide = min(ACROSS, len(values) - line * ACROSS)
        canvas.boxes([(left, y + line * HIGH, wide * CELL, HIGH - GAP)], "tile")
    shares = np.nan_to_num(values / darkest, nan=0.0, posinf=0.0, neginf=0.0)
    for place, value in enumerate(values):
        line, column = divmod(place, ACROSS)
        box = (left + column * CELL, y + line * HIGH, CELL - GAP, HIGH - GAP)
        share = float(shares[place])
        canvas.boxes([box], "rust" if share < 0 else "ink", abs(share), tooltip_of(row, place, value), f"{at} {place}")
    return y + lines * HIGH + (5 if lines > 1 else 2)


def _bar(canvas: Canvas, row: Row, y: float, left: float, darkest: float, at: str) -> float:
    value = row.values[0]
    canvas.text(style.label(row.label), left - 8, y + 13, "text", "end", SMALL, tooltip=row.label, at=at)
    canvas.boxes([(left, y, BAR, ROW - 4)], "tile", tooltip=tooltip_of(row, 0, value), at=f"{at} 0")
    if not np.isfinite(value):
        canvas.text(row.note or MASKED, left + 6, y + 12, "faint", size=SMALL)
    else:
        # Negative numbers are drawn to the right too, in the other colour.
        wide = BAR * abs(float(value)) / darkest
        colour = "rust" if value < 0 else "ink"
        canvas.boxes([(left, y, wide, ROW - 4)], colour, 0.85, tooltip_of(row, 0, value), f"{at} bar")
        canvas.text(f"{float(value):.4f}", left + BAR + 8, y + 12, "text", size=SMALL)
    return y + ROW


def tooltip_of(row: Row, index: int, value: np.floating) -> str:
    """`q[3] = -0.412`, and how it was computed."""
    exact = row.note or MASKED if not np.isfinite(value) else str(value)
    how = f"\n{row.how[index]}" if row.how else ""
    return f"{style.isolated(row.name_of(index))} = {exact}{how}"
