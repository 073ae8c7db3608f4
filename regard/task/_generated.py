"""The results and the options of a language model: generated text, scores, next tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict

from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError

MOST_STOPS, LONGEST_STOP = 16, 1000


class Piece(NamedTuple):
    """A generated token."""

    text: str
    """The text that it adds; empty while the bytes of a character are incomplete."""
    token: str
    probability: float
    """Given the tokens before it, at temperature 1 and without top_k and top_p."""
    id: int


class Next(NamedTuple):
    """A possible next token."""

    token: str
    text: str
    probability: float


@dataclass
class Generated:
    """A generated continuation; `str()` gives the whole text with its prompt."""

    prompt: str
    text: str
    tokens: list[str]
    probabilities: list[float]
    """Probability of each token."""
    log_probability: float
    finished: bool
    """Whether the model or a stop string ended the text, not the length limit."""
    seed: int

    def __str__(self) -> str:
        return self.prompt + self.text


@dataclass
class Score:
    """The log-probability of each token of a text; of a translation END is the last one."""

    tokens: list[str]
    log_probabilities: list[float]
    words: list[tuple[str, float]] = field(default_factory=list)
    """Each word, separated by spaces, with the sum over its tokens."""

    @property
    def log_probability(self) -> float:
        """The sum over the tokens."""
        return sum(self.log_probabilities)

    @property
    def loss(self) -> float:
        """The mean of -log p per token."""
        return -sum(self.log_probabilities) / max(1, len(self.log_probabilities))

    @property
    def perplexity(self) -> float:
        return perplexity(self.loss)


class SamplingOptions(TypedDict, total=False):
    """The keywords of `Generator.generate` for sampling."""

    length: int | None
    """Most tokens generated. Defaults to the recipe's."""
    temperature: float
    """Below 1 safer, above 1 bolder; 0.01 to 100."""
    top_k: int
    """Sample from the k most probable tokens only; 0 means all."""
    top_p: float
    """Sample from the fewest tokens whose probabilities add up to this (nucleus sampling)."""
    repetition_penalty: float
    """Above 1, tokens that are there already become less likely."""
    stop: Sequence[str]
    """Texts at which it ends; they are left out."""


class Spelling:
    """Decodes tokens one at a time to the text that each adds."""

    def __init__(self, tokenizer: Tokenizer, first: bool) -> None:
        """`first`: there is no text before, so the first word has no leading space."""
        self.tokenizer, self.first = tokenizer, first
        self.waiting: list[int] = []

    def add(self, token: int) -> str:
        self.waiting.append(token)
        text = "".join(self.tokenizer.surfaces(self.waiting))
        if text.endswith("\ufffd") and len(self.waiting) < 4:  # an incomplete character
            return ""
        self.waiting = []
        if self.first and text:
            self.first = False
            text = text.removeprefix(" ") if self.tokenizer.drops_first_space else text
        return text


class StopStrings:
    """Ends a text before the first of some strings. Text that may be the beginning of one waits for the next token."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = [stops] if isinstance(stops, str) else list(stops)
        if not all(isinstance(one, str) and 0 < len(one) <= LONGEST_STOP for one in self.stops):
            raise UserError(f"a stop string is a text of 1 to {LONGEST_STOP} characters")
        if len(self.stops) > MOST_STOPS:
            raise UserError(f"{len(self.stops)} stop strings; {MOST_STOPS} are the most")
        self.stopped = False
        self._waiting: list[Piece] = []

    def add(self, piece: Piece) -> list[Piece]:
        """The pieces that are certain now."""
        self._waiting.append(piece)
        text = "".join(one.text for one in self._waiting)
        found = [at for at in map(text.find, self.stops) if at >= 0]
        if found:
            self.stopped = True
            return self._taken(min(found), cut=True)
        held = max((n for stop in self.stops for n in range(1, len(stop)) if text.endswith(stop[:n])), default=0)
        return self._taken(len(text) - held)

    def rest(self) -> list[Piece]:
        """What still waits when a text ends otherwise."""
        return [] if self.stopped else self._taken(sum(len(one.text) for one in self._waiting))

    def _taken(self, length: int, cut: bool = False) -> list[Piece]:
        """The waiting pieces of the first `length` characters; `cut` also takes the part of one."""
        taken: list[Piece] = []
        while self._waiting and len(self._waiting[0].text) <= length:
            taken.append(self._waiting.pop(0))
            length -= len(taken[-1].text)
        if cut and self._waiting and length:
            taken.append(self._waiting[0]._replace(text=self._waiting[0].text[:length]))
        return taken


def perplexity(loss: float) -> float:
    return math.exp(min(loss, 700.0))
