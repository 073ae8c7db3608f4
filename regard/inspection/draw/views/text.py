"""Views of a model that reads one text: the next token of a language model, the answers of a classifier or tagger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from regard.inspection.draw.next_token import draw_next_token, draw_options, draw_token_probabilities
from regard.inspection.draw.view import Picture, View, canvas_picture
from regard.inspection.draw.views import common
from regard.inspection.trace.base import SOURCE, TARGET, Choice
from regard.inspection.trace.next_token import Guess
from regard.inspection.trace.text import LanguageModelTrace, TextTrace


def next_token(trace: LanguageModelTrace, choice: Choice) -> View:
    """The distribution of the next token, and the probability of each token of the text."""
    pictures = [
        canvas_picture("next token", partial(draw_next_token, trace.next, end_of(trace.source.text))),
    ]
    if trace.guesses:
        draw = partial(draw_token_probabilities, trace.guesses)
        pictures.append(canvas_picture("probability of each token", draw))
    about = (
        "The next-token distribution: a bar is the sampling probability of a token, the paler bar behind it the "
        "probability before top-k and top-p. Below, the probability of each token of the text."
    )
    return View("next", about, ("next", "guesses"), pictures)


def answer(trace: TextTrace, choice: Choice) -> View:
    """The probability of each label, tag or word."""
    guesses: Sequence[tuple[int, Guess]] = list(enumerate(trace.guesses))
    if choice.position is not None:  # the chosen one first
        guesses = sorted(guesses, key=lambda one: one[0] != choice.position)
    pictures: list[Picture] = []
    if len(trace.guesses) > 1 and choice.position is None:
        pictures.append(canvas_picture("all predictions", partial(draw_token_probabilities, trace.guesses)))
    for _, guess in guesses:
        heading = f"{guess.about}: {guess.given}" if guess.about else guess.given
        pictures.append(canvas_picture(heading, partial(draw_options, guess, heading)))
    return View("answer", "The probability of each answer.", ("guesses",), pictures)


def heads(trace: TextTrace, choice: Choice) -> View:
    """There is only self-attention, so its kind need not be chosen."""
    kinds = [kind for kind in (SOURCE, TARGET) if trace.of_kind(kind)]
    return common.heads(trace, replace(choice, attention=kinds[0]) if kinds else choice)


def end_of(text: str, longest: int = 60) -> str:
    """The end of a text, in one line that fits a title."""
    line = " ".join(text.split("\n"))
    return line if len(line) <= longest else f"… {line[-longest:]}"
