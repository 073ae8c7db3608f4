"""The training examples whose words are nearest to one word of this sentence, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Neighbour:
    """A word of a training example."""

    similarity: float
    """The cosine of the angle between both states."""
    word: int
    """The index of the word in its side of the example."""
    source: list[str]
    target: list[str]
    """The words of the example."""


@dataclass
class Near:
    """The neighbours of one word, nearest first."""

    side: str
    """Whose word: "source" (a state of the encoder) or "target" (of the decoder, when it wrote the word)."""
    position: int
    word: str
    sentences: int
    """How many examples the index holds."""
    neighbours: list[Neighbour]
