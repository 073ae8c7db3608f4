"""The results and the options of a language model: generated text, scores, next tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

from regard.data.tokenizer._base import Tokenizer


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
    """Whether the model ended the text, not the length limit."""
    seed: int

    def __str__(self) -> str:
        return self.prompt + self.text


@dataclass
class Score:
    """The log-probability of each token of a text."""

    tokens: list[str]
    log_probabilities: list[float]

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


def perplexity(loss: float) -> float:
    return math.exp(min(loss, 700.0))
