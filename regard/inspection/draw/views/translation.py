"""Views of a translation: the alignment, and decoding step by step."""

from __future__ import annotations

from functools import partial

import torch

from regard.errors import UserError
from regard.inspection.draw.heatmap import matrix_figure, matrix_svg
from regard.inspection.draw.steps import draw_steps
from regard.inspection.draw.view import Picture, View, canvas_picture
from regard.inspection.draw.views.common import title_of
from regard.inspection.trace.base import CROSS, Choice
from regard.inspection.trace.translation import TranslationTrace


def alignment(trace: TranslationTrace, choice: Choice) -> View:
    """Cross-attention as a heatmap, between words and between tokens."""
    if not trace.of_kind(CROSS):
        raise UserError("this model has no attention, so there is no alignment; try the view gates")
    units = {
        "words": (trace.word_matrix(choice.layer, choice.head), trace.source.words, trace.target.words),
        "tokens": (trace.token_matrix(choice.layer, choice.head), trace.source.tokens, trace.target.tokens),
    }
    pictures = []
    for name, (weights, columns, rows) in units.items():
        drawn = torch.from_numpy(weights), columns, rows
        pictures.append(Picture(f"between {name}", partial(matrix_svg, *drawn), partial(matrix_figure, *drawn)))
    about = (
        "The stronger the colour of a cell, the more the model attended to the word above it to generate the word at "
        "its left."
    )
    return View("alignment", about, ("matrices",), pictures[::-1] if choice.tokens else pictures)


def steps(trace: TranslationTrace, choice: Choice) -> View:
    """A row per decoding step: the token, its probability, the cross-attention, the alternatives."""
    weights = trace.token_matrix(choice.layer, choice.head) if trace.of_kind(CROSS) else None
    draw = partial(
        draw_steps,
        trace.target.tokens,
        trace.probabilities,
        trace.alternatives,
        trace.source.tokens,
        weights,
        title_of(trace),
    )
    attended = "its attention over the source, " if weights is not None else ""
    about = (
        f"A row per decoding step: the generated token, its probability, {attended}and the most likely alternatives."
    )
    return View("steps", about, ("alternatives", "ids", "matrices"), [canvas_picture("step by step", draw)])
