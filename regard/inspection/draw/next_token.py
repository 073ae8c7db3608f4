"""What may come next: a token a row, from the model's logits to the probabilities that are drawn from.

The data and the drawing, also of any other list of answers with how sure a model is of each. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from regard.inspection.draw import style as paper
from regard.inspection.draw.canvas import Sheet
from regard.inspection.draw.style import FONT, LONGEST, MARGIN

ROW, BAR, SMALL = 24.0, 320.0, 11.0
DRAWN = 24
"""Tokens that have a bar."""
ACROSS = 640.0
"""How wide a text stands whose tokens are drawn one after the other."""


@dataclass
class Option:
    """Something a model might have said, and how sure it was of that."""

    token: str
    probability: float


@dataclass
class Next:
    """A token that may come next, in every stage on the way to what is drawn from."""

    token: str
    text: str
    """What it would add to the text."""
    logit: float
    probability: float
    """By the model itself: softmax of the logits."""
    tempered: float
    """The same after the temperature, without what is never written."""
    within_k: float
    """With only the `top_k` likeliest left."""
    drawn: float
    """With only the fewest left that hold `top_p`: what is drawn from."""


@dataclass
class Distribution:
    """What may come next, the likeliest first; the order is the same in every stage."""

    temperature: float
    top_k: int
    """0: all."""
    top_p: float
    tokens: list[Next] = field(default_factory=list)
    others: int = 0
    """How many more there are, and how much of the probability is theirs in each stage."""
    rest: dict[str, float] = field(default_factory=dict)

    def said(self) -> str:
        cuts = [f"top-k {self.top_k}"] if self.top_k else []
        cuts += [f"top-p {self.top_p:g}"] if self.top_p < 1 else []
        return ", ".join([f"temperature {self.temperature:g}", *cuts])


@dataclass
class Guess:
    """What a model said at one place, or what stood there, and what else it thought of, the likeliest first."""

    about: str
    """The word or token it is about; nothing where it is the whole text."""
    given: str
    probability: float
    others: list[Option] = field(default_factory=list)


def next_sheet(found: Distribution, title: str = "") -> Sheet:
    """Bars are what is drawn from; behind them, paler, what there was before the cuts. What is cut is grey."""
    sheet = Sheet("regard-next", "the next token", paper.shortened(title, 4 * LONGEST))
    y = _titled(sheet, MARGIN)
    sheet.words(found.said(), MARGIN, y + SMALL, "faint", size=SMALL)
    y += 2 * SMALL + 10
    tokens = found.tokens[:DRAWN]
    labels = [paper.label(one.token) for one in tokens]
    left = MARGIN + max(map(paper.length, [*labels, "logit"]), default=0.0) + 66
    sheet.words("logit", left - 14, y, "faint", "end", SMALL)
    sheet.words("probability", left, y, "faint", size=SMALL)
    y += 8
    longest = max((max(one.tempered, one.drawn) for one in tokens), default=0.0) or 1.0
    for number, (one, label) in enumerate(zip(tokens, labels)):
        cut = one.drawn <= 0
        exact = f"logit {_exact(one.logit)}, the model's own probability {_exact(one.probability)}"
        exact += f", after temperature {_exact(one.tempered)}, after top-k {_exact(one.within_k)}"
        tooltip = f"{paper.isolated(one.token)}: {exact}, drawn with {_exact(one.drawn)}"
        colour, base = ("faint" if cut else "text"), y + 15
        sheet.words(label, left - 66, base, colour, "end", tooltip=tooltip)
        sheet.words(f"{one.logit:.2f}", left - 14, base, "faint", "end", SMALL)
        sheet.boxes([(left, y + 3, BAR, ROW - 8)], "tile")
        before, now = BAR * one.tempered / longest, BAR * one.drawn / longest
        if before > now:
            sheet.boxes([(left + now, y + 3, before - now, ROW - 8)], "ink", 0.2)
        sheet.boxes([(left, y + 3, now, ROW - 8)], "ink", 0.85, tooltip, f"next {number}")
        sheet.words("cut" if cut else _percent(one.drawn), left + BAR + 8, base, colour, size=SMALL)
        y += ROW
    more = found.tokens[DRAWN:]
    if others := found.others + len(more):
        drawn = found.rest.get("drawn", 0.0) + sum(one.drawn for one in more)
        told = f"and {others:,} more, drawn with {_percent(drawn)} together"
        sheet.words(told, left, y + 14, "faint", size=SMALL)
    return sheet


def options_sheet(guess: Guess, title: str = "") -> Sheet:
    """A list of answers as bars."""
    sheet = Sheet("regard-options", "how sure of each answer", paper.shortened(title, 4 * LONGEST))
    y = _titled(sheet, MARGIN)
    left = MARGIN + max((paper.length(paper.label(one.token)) for one in guess.others), default=0.0) + 10
    for number, one in enumerate(guess.others):
        tooltip = f"{paper.isolated(one.token)}: {_exact(one.probability)}"
        chosen = one.token == guess.given
        sheet.words(paper.label(one.token), left - 10, y + 15, anchor="end", bold=chosen, tooltip=tooltip)
        sheet.boxes([(left, y + 3, BAR, ROW - 8)], "tile")
        share = _finite(one.probability)
        sheet.boxes([(left, y + 3, BAR * share, ROW - 8)], "ink", 0.85, tooltip, f"option {number}")
        sheet.words(_percent(one.probability), left + BAR + 8, y + 15, "text", size=SMALL)
        y += ROW
    return sheet


def reading_sheet(guesses: Sequence[Guess], title: str = "") -> Sheet:
    """A text, a line under each token: the longer, the surer the model was. Below stands what it said of a word."""
    sheet = Sheet("regard-reading", "how sure of each token", paper.shortened(title, 4 * LONGEST))
    x, y = MARGIN, _titled(sheet, MARGIN)
    high = 14.0 if any(one.given != one.about for one in guesses) else 0.0
    for number, one in enumerate(guesses):
        label, below = paper.label(one.about), paper.label(one.given) if one.given != one.about else ""
        wide = max(paper.length(label), paper.length(below) * SMALL / FONT) + 8
        if x > MARGIN and x + wide > MARGIN + ACROSS:
            x, y = MARGIN, y + 46 + high
        likely = ", ".join(f"{paper.isolated(other.token)} {_percent(other.probability)}" for other in one.others)
        tooltip = f"{paper.isolated(one.about)}: {_exact(one.probability)}; likeliest: {likely}"
        sheet.boxes([(x, y + 20, wide - 2, 8)], "tile")
        sheet.boxes([(x, y + 20, (wide - 2) * _finite(one.probability), 8)], "ink", 0.85, tooltip, f"token {number}")
        sheet.words(label, x + wide / 2 - 1, y + 14, anchor="middle", tooltip=tooltip)
        if below:
            sheet.words(below, x + wide / 2 - 1, y + 42, "faint", "middle", SMALL, tooltip=tooltip)
        x += wide + 3
    sheet.boxes([(MARGIN, y + 32, 0.0, 0.0)], "tile")
    return sheet


def _titled(sheet: Sheet, y: float) -> float:
    if not sheet.title:
        return y
    sheet.words(sheet.title, MARGIN, y + FONT, bold=True)
    return y + 2 * FONT


def _finite(share: float) -> float:
    return min(1.0, max(0.0, share)) if np.isfinite(share) else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %" if share >= 0.0001 else "0 %" if share <= 0 else "<0.01 %"


def _exact(value: float) -> str:
    return str(np.float32(value))
