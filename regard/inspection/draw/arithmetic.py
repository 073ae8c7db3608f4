"""A calculation drawn as a worked example: one stage below the other, vectors as strips of cells, weights as bars.

Above zero is drawn in ink and below in rust, the farther from zero the darker. Every number is told exactly where it
stands. Knows nothing of models.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

from regard.inspection.draw import style as paper
from regard.inspection.draw.canvas import Sheet
from regard.inspection.draw.style import FONT, LONGEST, MARGIN
from regard.inspection.trace.arithmetic import MASKED, Calculation, Row, Stage
from regard.inspection.trace.base import KINDS

CELL, HIGH, GAP, SMALL = 9.0, 14.0, 1.0, 12.0
ACROSS = 64
"""Cells of a line. A longer vector goes on in the next; where every token has one, the first line of each is drawn."""
BAR, ROW = 150.0, 20.0
MOST = 24
"""Of the tokens that are looked at so many are drawn: those with the greatest weights, in their order."""
LINE = 92
"""Characters of a line of words."""


def worked(calculation: Calculation) -> Sheet:
    """All stages in one picture."""
    title = called(calculation)
    sheet = Sheet("regard-numbers", "the numbers of an attention", paper.shortened(title, 6 * LONGEST))
    sheet.words(sheet.title, MARGIN, MARGIN + FONT, bold=True)
    y = MARGIN + 3.2 * FONT
    left = beside(calculation.stages)
    for number, one in enumerate(calculation.stages, 1):
        y = _stage(sheet, calculation, one, number, y, left) + 2.6 * FONT
    sheet.words(agreement(calculation), MARGIN, y, "faint", size=SMALL)
    return sheet


def worked_stage(calculation: Calculation, number: int) -> Sheet:
    """One stage by itself, counted from 0."""
    one = calculation.stages[number]
    sheet = Sheet("regard-numbers", f"{one.name}: {one.formula}")
    sheet.words(one.formula, MARGIN, 1.5 * FONT, "ink")
    _rows(sheet, calculation, one, number + 1, 2.5 * FONT, beside(calculation.stages))
    return sheet


def called(calculation: Calculation) -> str:
    """What is calculated, in words."""
    which = f"layer {calculation.layer}" + (f", head {calculation.head}" if calculation.heads > 1 else "")
    return f"{paper.isolated(calculation.query)}: {KINDS.get(calculation.kind, calculation.kind)}, {which}"


def agreement(calculation: Calculation) -> str:
    return f"What the model computed by itself differs from the last line by at most {calculation.difference:.1e}."


def shown_keys(weights: np.ndarray, most: int = MOST) -> set[int]:
    """Which tokens are drawn of many."""
    finite = np.nan_to_num(weights, nan=0.0)
    return set(np.argsort(-finite, kind="stable")[:most].tolist())


def beside(stages: Sequence[Stage]) -> float:
    """Where the cells begin: all stages alike, behind the longest label."""
    labels = (row.label for stage in stages for row in stage.rows)
    return MARGIN + max((paper.length(paper.label(label)) * SMALL / FONT for label in labels), default=0.0) + 10


def _stage(sheet: Sheet, calculation: Calculation, stage: Stage, number: int, y: float, left: float) -> float:
    sheet.words(f"{number}  {stage.name}", MARGIN, y, bold=True, at=f"stage {number}")
    sheet.words(stage.formula, MARGIN, y + 1.5 * FONT, "ink")
    y += 1.5 * FONT
    for line in textwrap.wrap(stage.sentence, LINE):
        y += 1.3 * FONT
        sheet.words(line, MARGIN, y, "faint", size=SMALL)
    return _rows(sheet, calculation, stage, number, y + FONT, left)


def _rows(sheet: Sheet, calculation: Calculation, stage: Stage, number: int, y: float, left: float) -> float:
    """The rows below each other; where the last of them ends."""
    drawn = shown_keys(calculation.weights)
    rows = [row for row in stage.rows if row.key is None or row.key in drawn]
    strips, bars = ([row for row in rows if (len(row.values) > 1) == long] for long in (True, False))
    darkest, longest = _greatest(strips), _greatest(bars)
    for place, row in enumerate(rows):
        at = f"{number} {place}" if row.key is None else f"{number} {place} key {row.key}"
        long = len(row.values) > 1
        y = _strip(sheet, row, y, left, darkest, at) if long else _bar(sheet, row, y, left, longest, at)
    said = [f"darkest: ±{darkest:.3g}"] if strips else []
    if any(len(_drawn(row)) < len(row.values) for row in rows):
        said.insert(0, f"the first {ACROSS} of {max(len(row.values) for row in rows)} numbers of each token")
    if len(rows) < len(stage.rows):
        said.insert(0, f"the {len(drawn)} of {len(calculation.keys)} tokens with the greatest weights")
    if stage.note:
        said.insert(0, stage.note)
    if said:
        y += 14
        sheet.words("; ".join(said), left, y, "faint", size=SMALL)
    return y


def _greatest(rows: Sequence[Row]) -> float:
    finite = [np.abs(values[np.isfinite(values)]).max(initial=0.0) for values in map(_drawn, rows)]
    return float(max(finite, default=0.0)) or 1.0


def _drawn(row: Row) -> np.ndarray:
    """All its numbers, or the first of them: thousands of cells would be drawn to say what a line of them says."""
    return row.values if row.key is None else row.values[:ACROSS]


def _strip(sheet: Sheet, row: Row, y: float, left: float, darkest: float, at: str) -> float:
    label = paper.label(row.label)
    sheet.words(label, left - 8, y + HIGH - 3, "text", "end", SMALL, tooltip=row.note or row.label, at=at)
    values = _drawn(row)
    lines = -(-len(values) // ACROSS)
    for line in range(lines):
        wide = min(ACROSS, len(values) - line * ACROSS)
        sheet.boxes([(left, y + line * HIGH, wide * CELL, HIGH - GAP)], "tile")
    shares = np.nan_to_num(values / darkest, nan=0.0, posinf=0.0, neginf=0.0)
    for place, value in enumerate(values):
        line, column = divmod(place, ACROSS)
        box = (left + column * CELL, y + line * HIGH, CELL - GAP, HIGH - GAP)
        share = float(shares[place])
        sheet.boxes([box], "rust" if share < 0 else "ink", abs(share), told(row, place, value), f"{at} {place}")
    return y + lines * HIGH + (5 if lines > 1 else 2)


def _bar(sheet: Sheet, row: Row, y: float, left: float, darkest: float, at: str) -> float:
    value = row.values[0]
    sheet.words(paper.label(row.label), left - 8, y + 13, "text", "end", SMALL, tooltip=row.label, at=at)
    sheet.boxes([(left, y, BAR, ROW - 4)], "tile", tooltip=told(row, 0, value), at=f"{at} 0")
    if not np.isfinite(value):
        sheet.words(row.note or MASKED, left + 6, y + 12, "faint", size=SMALL)
    else:
        # Zero stands at the left; what is below it is drawn from there too, in the other colour.
        wide = BAR * abs(float(value)) / darkest
        colour = "rust" if value < 0 else "ink"
        sheet.boxes([(left, y, wide, ROW - 4)], colour, 0.85, told(row, 0, value), f"{at} bar")
        sheet.words(f"{float(value):.4f}", left + BAR + 8, y + 12, "text", size=SMALL)
    return y + ROW


def told(row: Row, place: int, value: np.floating) -> str:
    """`q[3] = -0.412`, and how it came about."""
    exact = row.note or MASKED if not np.isfinite(value) else str(value)
    how = f"\n{row.how[place]}" if row.how else ""
    return f"{paper.isolated(row.named(place))} = {exact}{how}"
