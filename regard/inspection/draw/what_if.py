"""A translation before and after an intervention: both texts with changed words marked, and token probabilities."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.style import FONT, LONGEST, MARGIN
from regard.inspection.trace.translation import TranslationTrace
from regard.inspection.trace.what_if import WhatIf

SMALL, ACROSS, BAR, ROW = 11.0, 640.0, 220.0, 24.0


def changed_words(before: Sequence[str], after: Sequence[str]) -> tuple[list[bool], list[bool]]:
    """Which words of each text are not in the other, in order (the longest common blocks stay)."""
    old, new = [True] * len(before), [True] * len(after)
    for block in difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        for place in range(block.size):
            old[block.a + place] = new[block.b + place] = False
    return old, new


def draw_what_if(trace: TranslationTrace, found: WhatIf) -> Canvas:
    """Both translations, then a bar for each token of the original: its probability before (pale) and after."""
    canvas = Canvas("regard-what-if", "before and after", style.shortened(found.summary(), 4 * LONGEST))
    y = MARGIN
    canvas.text(canvas.title, MARGIN, y + FONT, bold=True, tooltip=found.summary())
    y += 2 * FONT + 6
    gone, fresh = changed_words(trace.target.words, found.after.target.words)
    y = _text(canvas, f"before, score {trace.score:.2f}", trace.target.words, gone, y)
    y = _text(canvas, f"after, score {found.after.score:.2f}", found.after.target.words, fresh, y + 8)
    told = f"log-probability of the original: {trace.log_probability:.2f} before, {found.log_probability:.2f} after"
    canvas.text(told, MARGIN, y + 18, "faint", size=SMALL)
    y += 34
    labels = [style.label(token) for token in trace.target.tokens]
    left = MARGIN + max(map(style.length, labels), default=0.0) + 12
    for number, (label, old, new) in enumerate(zip(labels, trace.probabilities, found.probabilities)):
        tooltip = f"{style.isolated(trace.target.tokens[number])}: {old:.4g} before, {new:.4g} after"
        canvas.text(label, left - 10, y + 15, anchor="end", tooltip=tooltip)
        canvas.boxes([(left, y + 3, BAR, ROW - 8)], "tile")
        canvas.boxes([(left, y + 3, BAR * min(1.0, old), ROW - 8)], "ink", 0.25)
        canvas.boxes([(left, y + 6, BAR * min(1.0, new), ROW - 14)], "ink", 0.9, tooltip, f"token {number}")
        canvas.text(f"{100 * old:.0f} % → {100 * new:.0f} %", left + BAR + 8, y + 15, size=SMALL)
        y += ROW
    return canvas


def _text(canvas: Canvas, name: str, words: Sequence[str], changed: Sequence[bool], y: float) -> float:
    canvas.text(name, MARGIN, y + SMALL, "faint", size=SMALL)
    x, y = MARGIN, y + SMALL + 6
    for word, is_new in zip(words or ["(nothing)"], changed or [False]):
        shown = style.label(word)
        wide = style.length(shown) * (1.15 if is_new else 1.0) + 8  # bold is wider
        if x > MARGIN and x + wide > MARGIN + ACROSS:
            x, y = MARGIN, y + 24
        if is_new:
            canvas.boxes([(x - 2, y + 1, wide - 2, 20)], "rust", 0.22)
        canvas.text(shown, x, y + FONT + 2, colour="rust" if is_new else "text", bold=is_new)
        x += wide
    return y + 24
