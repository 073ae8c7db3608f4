"""The trace of a model that reads one text: a language model, a classifier, a tagger, a masked language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.inspection.trace.base import Side, Trace
from regard.inspection.trace.next_token import Distribution, Guess


@dataclass(kw_only=True, repr=False)
class TextTrace(Trace):
    """One text and a model's predictions: for the whole text, for each word, or for each blank."""

    source: Side
    read: list[str]
    """The model's input tokens."""
    guesses: list[Guess] = field(default_factory=list)
    said: str = ""
    """All predictions in one line."""

    def default_view(self) -> str:
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
class LanguageModelTrace(TextTrace):
    """A text scored by a language model: the probability of each token, and the distribution of the next one.

    `read` begins with BEGIN; `guesses` are the tokens after it, one fewer.
    """

    next: Distribution

    def default_view(self) -> str:
        return "next"

    def texts(self) -> Sequence[Side]:
        return (self.source,)

    def outputs(self) -> Sequence[str]:
        """The tokens of the text, then the most likely next one."""
        return [*super().outputs(), *(one.token for one in self.next.tokens[:1])]

    def parts(self) -> set[str]:
        return super().parts() | {"next"}
