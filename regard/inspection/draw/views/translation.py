"""Views of a translation: the alignment, decoding step by step, and what changes without a part of the model."""

from __future__ import annotations

from functools import partial

import torch

from regard.errors import UserError
from regard.inspection.draw.heatmap import matrix_figure, matrix_svg
from regard.inspection.draw.near import draw_near
from regard.inspection.draw.steps import draw_steps
from regard.inspection.draw.style import isolated, shortened
from regard.inspection.draw.view import Picture, View, canvas_picture
from regard.inspection.draw.views.common import title_of
from regard.inspection.draw.what_if import draw_what_if
from regard.inspection.trace.base import CROSS, SOURCE, Choice
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


def what_if(trace: TranslationTrace, choice: Choice) -> View:
    """The translation with some parts switched off, beside the original, and the attention of both."""
    if not choice.without and not choice.patch:
        raise UserError("name what to switch off, such as --without decoder.1.cross or --without encoder.0.self.head.3")
    found = trace.what_if_of(choice)
    pictures = [canvas_picture("before and after", partial(draw_what_if, trace, found))]
    if trace.of_kind(CROSS) and found.after.of_kind(CROSS):
        for heading, one in (("attention before", trace), ("attention after", found.after)):
            drawn = torch.from_numpy(one.word_matrix(choice.layer, choice.head)), one.source.words, one.target.words
            pictures.append(Picture(heading, partial(matrix_svg, *drawn), partial(matrix_figure, *drawn)))
    about = (
        f"What the model does with {found.summary()}. Words that changed are marked; the bars are the probability of "
        "each token of the original translation, pale before and dark after."
    )
    return View("what-if", about, ("what_if", "ids"), pictures)


def near(trace: TranslationTrace, choice: Choice) -> View:
    """The training examples nearest to one word."""
    found = trace.near_of(choice)
    state = "the encoder's state at" if found.side == SOURCE else "the decoder's state when it wrote"
    about = (
        f"The words of {found.sentences:,} training examples whose state is nearest to {state} "
        f"{isolated(shortened(found.word))}, by cosine similarity, in their contexts."
    )
    title = f"nearest to {isolated(shortened(found.word))}"
    return View("near", about, ("near",), [canvas_picture(title, partial(draw_near, found, title))])
