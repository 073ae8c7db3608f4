"""A beam search as a tree: a column per step with its open hypotheses, best first, and below them those that ended.

The chosen hypothesis is highlighted. Below each token is the log-probability of the hypothesis up to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.style import FONT, LONGEST, MARGIN
from regard.inspection.trace.translation import Branch, SearchStep

HIGH, DROP, SMALL = 44.0, 14.0, 11.0


def draw_tree(steps: Sequence[SearchStep], title: str = "") -> Canvas:
    """Tooltips hold each hypothesis and its exact log-probability; of one that ended also its score."""
    canvas = Canvas("regard-tree", "beam search", style.shortened(title, 4 * LONGEST))
    top, x = MARGIN + (2 * FONT if title else 0) + 30, MARGIN
    if title:
        canvas.text(canvas.title, MARGIN, MARGIN + FONT, bold=True)
    lowest = max((len(step.open) for step in steps), default=0)  # ended hypotheses are below all open ones
    # Of each hypothesis of the step before: the end of its token (x, y), and all its tokens.
    canvas.text("·", x, top + FONT, "ink", bold=True)
    before: list[tuple[float, float, list[str]]] = [(x + 10, top + 10, [])]
    for number, step in enumerate(steps, 1):
        x = max((end for end, *_ in before), default=x) + 46
        canvas.text(str(number), x, top - 16, "faint", size=SMALL)
        after = []
        for row, branch in enumerate(step.open):
            after.append(_branch(canvas, branch, before[branch.parent], x, top + row * HIGH, number, row))
        for row, branch in enumerate(step.ended):
            _branch(canvas, branch, before[branch.parent], x, top + (lowest + row) * HIGH + DROP, number, lowest + row)
        before = after
    return canvas


def _branch(
    canvas: Canvas, branch: Branch, parent: tuple[float, float, list[str]], x: float, y: float, step: int, row: int
) -> tuple[float, float, list[str]]:
    from_x, from_y, past = parent
    colour, tokens = ("ink" if branch.chosen else "faint"), [*past, branch.token]
    hypothesis = " ".join(map(style.isolated, tokens))
    scored = "" if branch.score is None else f", score {_exact(branch.score)}"
    tooltip = f"{hypothesis}: log-probability {_exact(branch.log_probability)}{scored}"
    at = f"{step} {row}"
    canvas.line(
        (from_x + 3, from_y, x - 4, y + 10), colour, 1.0 if branch.chosen else 0.45, 2.5 if branch.chosen else 1.2
    )
    label = style.label(branch.token)
    canvas.text(label, x, y + FONT, "ink" if branch.chosen else "text", bold=branch.chosen, tooltip=tooltip, at=at)
    under = branch.log_probability if branch.score is None else branch.score
    canvas.text(f"{under:.2f}", x, y + FONT + 14, "faint", size=SMALL)
    return x + max(style.length(label) * (1.1 if branch.chosen else 1.0), 30.0), y + 10, tokens


def _exact(value: float) -> str:
    import numpy as np

    return str(np.float32(value))
