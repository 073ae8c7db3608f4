"""What a language model wrote or thinks of a text, and the options of writing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypedDict


class Piece(NamedTuple):
    """A token as it is written."""

    text: str
    """What it adds; nothing as long as the bytes of a character are not all there."""
    token: str
    probability: float
    """How sure the model was of it, given what stood before: at temperature 1, without cut-offs."""
    id: int


class Next(NamedTuple):
    """A token that may come next."""

    token: str
    text: str
    probability: float


@dataclass
class Generated:
    """How a text went on; `str()` of it is the whole text, with its beginning."""

    prompt: str
    text: str
    tokens: list[str]
    probabilities: list[float]
    """How sure the model was of each token."""
    log_probability: float
    finished: bool
    """Whether it came to an end by itself."""
    seed: int

    def __str__(self) -> str:
        return self.prompt + self.text


@dataclass
class Score:
    """What a model thinks of a text, token by token."""

    tokens: list[str]
    log_probabilities: list[float]

    @property
    def loss(self) -> float:
        """The mean of -log p a token."""
        return -sum(self.log_probabilities) / max(1, len(self.log_probabilities))

    @property
    def perplexity(self) -> float:
        return perplexity(self.loss)


class SamplingOptions(TypedDict, total=False):
    """The keywords of `Generator.generate` that say how tokens are drawn."""

    length: int | None
    """Most tokens written; without it, what the recipe says."""
    temperature: float
    """Below 1 safer, above 1 bolder; 0.01 to 100."""
    top_k: int
    """Draw from the k likeliest tokens only; 0 means all."""
    top_p: float
    """Draw from the fewest tokens that together are so likely."""


def perplexity(loss: float) -> float:
    return math.exp(min(loss, 700.0))
