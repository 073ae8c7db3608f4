"""A beam search as a tree: a column per step with its open hypotheses, best first, and below them those that ended.

The chosen hypothesis is highlighted. Below each token is the log-probability of the hypothesis up to it; below the end
of one that ended also its score, by which the search chooses: the log-probability divided by the length penalty.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.style import FONT, LONGEST, MARGIN
from regard.inspection.trace.translation import Branch, SearchStep

HIGH, ENDED, DROP, GAP, SMALL = 44.0, 58.0, 14.0, 50.0, 11.0
NOTES = (
    "below a token: the log-probability of its hypothesis",
    "score: of a hypothesis that ended, its log-probability divided by the length penalty; the best score wins",
)


def draw_tree(steps: Sequence[SearchStep], title: str = "") -> Canvas:
    """Tooltips hold each hypothesis and its exact log-probability; of one that ended also its score."""
    canvas = Canvas("regard-tree", "beam search", style.shortened(title, 4 * LONGEST))
    top, x = MARGIN + (2 * FONT if title else 0) + 30, MARGIN
    if title:
        canvas.text(canvas.title, MARGIN, MARGIN + FONT, bold=True)
    lowest = max((len(step.open) for step in steps), default=0)  # ended hypotheses are below all open ones
    under = top + lowest * HIGH + DROP
    # Of each hypothesis of the step before: the end of its token (x, y), and all its tokens.
    canvas.text("·", x, top + FONT, "ink", bold=True)
    before: list[tuple[float, float, list[str]]] = [(x + 10, top + 10, [])]
    for number, step in enumerate(steps, 1):
        edge = max((end for end, *_ in before), default=x)
        x = edge + GAP
        canvas.text(str(number), x, top - 16, "faint", size=SMALL)
        children = [
            *((branch, top + row * HIGH, row) for row, branch in enumerate(step.open)),
            *((branch, under + row * ENDED, lowest + row) for row, branch in enumerate(step.ended)),
        ]
        _lines(canvas, [(branch, y) for branch, y, _ in children], before, edge, x)
        nodes = [_node(canvas, branch, before[branch.parent][2], x, y, number, row) for branch, y, row in children]
        before = nodes[: len(step.open)]
    y = under + max((len(step.ended) for step in steps), default=0) * ENDED + SMALL
    for line in NOTES:
        canvas.text(line, MARGIN, y, "faint", size=SMALL)
        y += 15
    return canvas


def _lines(
    canvas: Canvas,
    children: Sequence[tuple[Branch, float]],
    before: Sequence[tuple[float, float, list[str]]],
    edge: float,
    x: float,
) -> None:
    """Lines run level to the end of their column and turn in the gap behind it, so that they cross no token."""
    chosen = {branch.parent for branch, _ in children if branch.chosen}
    for parent in sorted({branch.parent for branch, _ in children}):
        end, y, _ = before[parent]
        canvas.line((end + 3, y, edge + 3, y), *_stroke(parent in chosen))
    for branch, y in children:
        canvas.line((edge + 3, before[branch.parent][1], x - 4, y + 10), *_stroke(branch.chosen))


def _stroke(chosen: bool) -> tuple[str, float, float]:
    return ("ink", 1.0, 2.5) if chosen else ("faint", 0.45, 1.2)


def _node(
    canvas: Canvas, branch: Branch, past: list[str], x: float, y: float, step: int, row: int
) -> tuple[float, float, list[str]]:
    tokens = [*past, branch.token]
    hypothesis = " ".join(map(style.isolated, tokens))
    scored = "" if branch.score is None else f", score {_exact(branch.score)}"
    tooltip = f"{hypothesis}: log-probability {_exact(branch.log_probability)}{scored}"
    at = f"{step} {row}"
    label = style.label(branch.token)
    canvas.text(label, x, y + FONT, "ink" if branch.chosen else "text", bold=branch.chosen, tooltip=tooltip, at=at)
    canvas.text(f"{branch.log_probability:.2f}", x, y + FONT + 14, "faint", size=SMALL)
    if branch.score is not None:
        canvas.text(f"score {branch.score:.2f}", x, y + FONT + 28, "ink" if branch.chosen else "text", size=SMALL)
    return x + max(style.length(label) * (1.1 if branch.chosen else 1.0), 30.0), y + 10, tokens


def _exact(value: float) -> str:
    import numpy as np

    return str(np.float32(value))
