"""The next-token distribution as bars, a list of answers as bars, and the probability of each token of a text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.style import FONT, LONGEST, MARGIN
from regard.inspection.trace.next_token import Distribution, Guess

ROW, BAR, SMALL = 24.0, 320.0, 11.0
DRAWN = 24
"""The most tokens that are drawn."""
ACROSS = 640.0
"""The width at which the tokens of a text wrap."""


def draw_next_token(found: Distribution, title: str = "") -> Canvas:
    """Bars are the final probabilities; the paler bars behind are those before top-k and top-p. Cut tokens are grey."""
    canvas = Canvas("regard-next", "the next token", style.shortened(title, 4 * LONGEST))
    y = _titled(canvas, MARGIN)
    canvas.text(found.settings(), MARGIN, y + SMALL, "faint", size=SMALL)
    y += 2 * SMALL + 10
    tokens = found.tokens[:DRAWN]
    labels = [style.label(one.token) for one in tokens]
    left = MARGIN + max(map(style.length, [*labels, "logit"]), default=0.0) + 66
    canvas.text("logit", left - 14, y, "faint", "end", SMALL)
    canvas.text("probability", left, y, "faint", size=SMALL)
    y += 8
    longest = max((max(one.tempered, one.drawn) for one in tokens), default=0.0) or 1.0
    for number, (one, label) in enumerate(zip(tokens, labels)):
        cut = one.drawn <= 0
        exact = f"logit {_exact(one.logit)}, model probability {_exact(one.probability)}"
        exact += f", after temperature {_exact(one.tempered)}, after top-k {_exact(one.within_k)}"
        tooltip = f"{style.isolated(one.token)}: {exact}, sampled with {_exact(one.drawn)}"
        colour, base = ("faint" if cut else "text"), y + 15
        canvas.text(label, left - 66, base, colour, "end", tooltip=tooltip)
        canvas.text(f"{one.logit:.2f}", left - 14, base, "faint", "end", SMALL)
        canvas.boxes([(left, y + 3, BAR, ROW - 8)], "tile")
        before, now = BAR * one.tempered / longest, BAR * one.drawn / longest
        if before > now:
            canvas.boxes([(left + now, y + 3, before - now, ROW - 8)], "ink", 0.2)
        canvas.boxes([(left, y + 3, now, ROW - 8)], "ink", 0.85, tooltip, f"next {number}")
        canvas.text("cut" if cut else _percent(one.drawn), left + BAR + 8, base, colour, size=SMALL)
        y += ROW
    more = found.tokens[DRAWN:]
    if others := found.others + len(more):
        drawn = found.rest.get("drawn", 0.0) + sum(one.drawn for one in more)
        note = f"and {others:,} more, sampled with {_percent(drawn)} together"
        canvas.text(note, left, y + 14, "faint", size=SMALL)
    return canvas


def draw_options(guess: Guess, title: str = "") -> Canvas:
    """The probability of each answer, as bars."""
    canvas = Canvas("regard-options", "probability of each answer", style.shortened(title, 4 * LONGEST))
    y = _titled(canvas, MARGIN)
    left = MARGIN + max((style.length(style.label(one.token)) for one in guess.others), default=0.0) + 10
    for number, one in enumerate(guess.others):
        tooltip = f"{style.isolated(one.token)}: {_exact(one.probability)}"
        chosen = one.token == guess.given
        canvas.text(style.label(one.token), left - 10, y + 15, anchor="end", bold=chosen, tooltip=tooltip)
        canvas.boxes([(left, y + 3, BAR, ROW - 8)], "tile")
        share = _finite(one.probability)
        canvas.boxes([(left, y + 3, BAR * share, ROW - 8)], "ink", 0.85, tooltip, f"option {number}")
        canvas.text(_percent(one.probability), left + BAR + 8, y + 15, "text", size=SMALL)
        y += ROW
    return canvas


def draw_token_probabilities(guesses: Sequence[Guess], title: str = "") -> Canvas:
    """A text with a line under each token, as long as its probability; below it the prediction, where it differs."""
    canvas = Canvas("regard-reading", "probability of each token", style.shortened(title, 4 * LONGEST))
    x, y = MARGIN, _titled(canvas, MARGIN)
    high = 14.0 if any(one.given != one.about for one in guesses) else 0.0
    for number, one in enumerate(guesses):
        label, below = style.label(one.about), style.label(one.given) if one.given != one.about else ""
        wide = max(style.length(label), style.length(below) * SMALL / FONT) + 8
        if x > MARGIN and x + wide > MARGIN + ACROSS:
            x, y = MARGIN, y + 46 + high
        likely = ", ".join(f"{style.isolated(other.token)} {_percent(other.probability)}" for other in one.others)
        tooltip = f"{style.isolated(one.about)}: {_exact(one.probability)}; most likely: {likely}"
        canvas.boxes([(x, y + 20, wide - 2, 8)], "tile")
        canvas.boxes([(x, y + 20, (wide - 2) * _finite(one.probability), 8)], "ink", 0.85, tooltip, f"token {number}")
        canvas.text(label, x + wide / 2 - 1, y + 14, anchor="middle", tooltip=tooltip)
        if below:
            canvas.text(below, x + wide / 2 - 1, y + 42, "faint", "middle", SMALL, tooltip=tooltip)
        x += wide + 3
    canvas.boxes([(MARGIN, y + 32, 0.0, 0.0)], "tile")
    return canvas


def _titled(canvas: Canvas, y: float) -> float:
    if not canvas.title:
        return y
    canvas.text(canvas.title, MARGIN, y + FONT, bold=True)
    return y + 2 * FONT


def _finite(share: float) -> float:
    return min(1.0, max(0.0, share)) if np.isfinite(share) else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %" if share >= 0.0001 else "0 %" if share <= 0 else "<0.01 %"


def _exact(value: float) -> str:
    return str(np.float32(value))
