"""What was seen of a model that reads one text: a language model, a classifier, a tagger, one that fills in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from regard.inspection.draw.gradients import gradients
from regard.inspection.draw.next_token import Distribution, Guess, next_sheet, options_sheet, reading_sheet
from regard.inspection.draw.views import drawn, gates, heads, numbers, ponder, positions
from regard.inspection.trace.base import READING, WRITING, Choice, Picture, Shown, Side, View


@dataclass(kw_only=True, repr=False)
class TextLook(Shown):
    """One text, and what a model said of it: of the whole, of each word, or of each blank."""

    source: Side
    read: list[str]
    """What the model had before it at each step: its tokens."""
    guesses: list[Guess] = field(default_factory=list)
    said: str = ""
    """All of that in one line."""

    def views(self) -> Mapping[str, Callable[[Any, Choice], View]]:
        return {"answer": _answer, **READ}

    def usual(self) -> str:
        return "answer"

    def texts(self) -> Sequence[Side]:
        return self.source, Side(self.said, [], [], [])

    def tokens(self, side: str) -> Sequence[str]:
        return self.read

    def outputs(self) -> Sequence[str]:
        return [guess.given for guess in self.guesses]

    def parts(self) -> set[str]:
        return super().parts() | {"guesses"}


@dataclass(kw_only=True, repr=False)
class LanguageLook(TextLook):
    """A text as a language model reads it: how sure it was of each token, and what may come next.

    `read` begins with BEGIN; `guesses` are the tokens after it, which is one less.
    """

    next: Distribution

    def views(self) -> Mapping[str, Callable[[Any, Choice], View]]:
        return {"next": _next, **READ}

    def usual(self) -> str:
        return "next"

    def texts(self) -> Sequence[Side]:
        return (self.source,)

    def outputs(self) -> Sequence[str]:
        """The tokens of the text, then the likeliest that may follow."""
        return [*(guess.given for guess in self.guesses), *(one.token for one in self.next.tokens[:1])]

    def parts(self) -> set[str]:
        return super().parts() | {"next"}


def _next(seen: LanguageLook, choice: Choice) -> View:
    found = [drawn("what may come next", partial(next_sheet, seen.next, last_line(seen.source.text)))]
    if seen.guesses:
        found.append(drawn("how sure it was of each token", partial(reading_sheet, seen.guesses)))
    about = (
        "What the model would write next: a bar is how likely a token is to be drawn, paler behind it how likely "
        "before anything was cut. Below, how sure it was of each token that is there."
    )
    return View("next", about, ("next", "guesses"), found)


def _answer(seen: TextLook, choice: Choice) -> View:
    guesses: Sequence[tuple[int, Guess]] = list(enumerate(seen.guesses))
    if choice.position is not None:  # the one that was asked for is first
        guesses = sorted(guesses, key=lambda one: one[0] != choice.position)
    found: list[Picture] = []
    if len(seen.guesses) > 1 and choice.position is None:
        found.append(drawn("what it said of each", partial(reading_sheet, seen.guesses)))
    for _, guess in guesses:
        heading = f"{guess.about}: {guess.given}" if guess.about else guess.given
        found.append(drawn(heading, partial(options_sheet, guess, heading)))
    return View("answer", "How sure the model is of each answer that it knows.", ("guesses",), found)


def _heads(seen: TextLook, choice: Choice) -> View:
    """There is one text, which looks at itself: nobody need say whose head is meant."""
    kinds = [kind for kind in (READING, WRITING) if seen.of_kind(kind)]
    return heads(seen, replace(choice, attention=kinds[0]) if kinds else choice)


READ: dict[str, Callable[[Any, Choice], View]] = {
    "heads": _heads,
    "numbers": numbers,
    "positions": positions,
    "gates": gates,
    "gradients": gradients,
    "ponder": ponder,
}
"""Views of whatever reads one text."""


def last_line(text: str, most: int = 60) -> str:
    """How a text ends, as a title has room for it."""
    line = " ".join(text.split("\n"))
    return line if len(line) <= most else f"… {line[-most:]}"
