"""A search as a tree: a column for each step, in it the ways that stayed open, best on top, and below those that ended.

The way that was chosen is drawn in ink. Under each token stands the log-probability of the whole way to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.inspection.draw import style as paper
from regard.inspection.draw.canvas import Sheet
from regard.inspection.draw.style import FONT, LONGEST, MARGIN
from regard.inspection.trace.translation import Branch, SearchStep

HIGH, DROP, SMALL = 44.0, 14.0, 11.0


def tree(steps: Sequence[SearchStep], title: str = "") -> Sheet:
    """Tooltips hold the whole way and its exact log-probability, of one that ended also its score."""
    sheet = Sheet("regard-tree", "beam search", paper.shortened(title, 4 * LONGEST))
    top, x = MARGIN + (2 * FONT if title else 0) + 30, MARGIN
    if title:
        sheet.words(sheet.title, MARGIN, MARGIN + FONT, bold=True)
    lowest = max((len(step.open) for step in steps), default=0)  # what ended stands below all that is open
    # Of each way before: where its token ends, how high it stands, and all its tokens.
    sheet.words("·", x, top + FONT, "ink", bold=True)
    before: list[tuple[float, float, list[str]]] = [(x + 10, top + 10, [])]
    for number, step in enumerate(steps, 1):
        x = max((end for end, *_ in before), default=x) + 46
        sheet.words(str(number), x, top - 16, "faint", size=SMALL)
        after = []
        for row, branch in enumerate(step.open):
            after.append(_branch(sheet, branch, before[branch.parent], x, top + row * HIGH, number, row))
        for row, branch in enumerate(step.ended):
            _branch(sheet, branch, before[branch.parent], x, top + (lowest + row) * HIGH + DROP, number, lowest + row)
        before = after
    return sheet


def _branch(
    sheet: Sheet, branch: Branch, parent: tuple[float, float, list[str]], x: float, y: float, step: int, row: int
) -> tuple[float, float, list[str]]:
    from_x, from_y, past = parent
    colour, tokens = ("ink" if branch.chosen else "faint"), [*past, branch.token]
    way = " ".join(map(paper.isolated, tokens))
    scored = "" if branch.score is None else f", score {_exact(branch.score)}"
    told = f"{way}: log-probability {_exact(branch.log_probability)}{scored}"
    at = f"{step} {row}"
    sheet.line(
        (from_x + 3, from_y, x - 4, y + 10), colour, 1.0 if branch.chosen else 0.45, 2.5 if branch.chosen else 1.2
    )
    shown = paper.label(branch.token)
    sheet.words(shown, x, y + FONT, "ink" if branch.chosen else "text", bold=branch.chosen, tooltip=told, at=at)
    under = branch.log_probability if branch.score is None else branch.score
    sheet.words(f"{under:.2f}", x, y + FONT + 14, "faint", size=SMALL)
    return x + max(paper.length(shown) * (1.1 if branch.chosen else 1.0), 30.0), y + 10, tokens


def _exact(value: float) -> str:
    import numpy as np

    return str(np.float32(value))
