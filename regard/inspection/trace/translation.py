"""What was seen of one translation, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard import word_alignment as alignment
from regard.errors import UserError
from regard.inspection.draw.steps import Next
from regard.inspection.trace.base import CROSS, READING, Choice, Shown, Side, View, plain


@dataclass
class Branch:
    """A way that a search kept: one token more than its parent, which is a place in the list of the step before."""

    parent: int
    token: str
    log_probability: float
    chosen: bool
    """On the way to the translation that was chosen."""
    score: float | None = None
    """After the length penalty, of a way that ended here."""


@dataclass
class SearchStep:
    """What stayed open after a step, best first, and what ended in it and was among the best so far."""

    open: list[Branch]
    ended: list[Branch]


@dataclass
class Candidate:
    """A translation that a search found, the chosen one or another."""

    text: str
    log_probability: float
    score: float
    """After the length penalty: what translations of one sentence are ranked by."""
    finished: bool


@dataclass(kw_only=True, repr=False)
class Look(Shown):
    """One translation, seen from inside."""

    source: Side
    target: Side
    read: list[str]
    """What the decoder had read last when it wrote each token of the target: the token before it, at first BEGIN."""
    probabilities: list[float]
    """How sure the model was of each token of the target, given those before it."""
    log_probability: float
    score: float
    finished: bool
    """False where the length limit cut it off: then there is no END."""
    beam: int = 1
    length_penalty: float = 1.0
    search: list[SearchStep] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    """What the search found, best first, as many as were asked for."""
    of: int = 0
    """Which of them is seen here."""
    ids: list[int] = field(default_factory=list)
    """The tokens of the target as numbers."""
    given: int = 0
    """So many of them were given to the search, not chosen by it."""
    alternatives: list[list[Next]] = field(default_factory=list)
    """What was likeliest at each step, given the tokens before it, likeliest first."""

    def views(self) -> Mapping[str, Callable[[Any, Choice], View]]:
        from regard.inspection.draw.views import VIEWS

        return VIEWS

    def usual(self) -> str:
        return "alignment" if self.of_kind(CROSS) else "gates"

    def texts(self) -> Sequence[Side]:
        return self.source, self.target

    def tokens(self, side: str) -> Sequence[str]:
        return self.source.tokens if side == READING else self.read

    def outputs(self) -> Sequence[str]:
        return self.target.tokens

    def queries(self, kind: str) -> Sequence[str]:
        return self.target.tokens if kind == CROSS else super().queries(kind)

    def token_matrix(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """Where each target token looked: (target tokens, source tokens), the mean of layers and heads, or of those of
        one layer, one head of each layer, or one head of one layer."""
        cross = self.of_kind(CROSS)
        if layer is not None:
            cross = [cross[among(layer, len(cross), "layer")]]
        heads = None if head is None else [among(head, len(cross[0].weights), "head")]
        return alignment.average([torch.from_numpy(one.weights)[None] for one in cross], heads)[0].numpy()

    def word_matrix(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """The same between words: summed over a source word's tokens, averaged over a target word's."""
        between = torch.from_numpy(self.token_matrix(layer, head))
        merged = alignment.word_matrix(between, self.target.word_of, self.source.word_of)
        # A word at the end may have no token of its own.
        found = np.zeros((len(self.target.words), len(self.source.words)), np.float32)
        found[: merged.shape[0], : merged.shape[1]] = merged.numpy()
        return found

    def word_probabilities(self) -> list[float]:
        """How sure the model was of each target word, given those before it: of all its tokens, one after the other."""
        found = [1.0] * len(self.target.words)
        for word, probability in zip(self.target.word_of if found else [], self.probabilities):
            found[word] *= probability
        return found

    def parts(self) -> set[str]:
        return super().parts() | {"matrices", "search", "ids", "alternatives"}

    def tree(self, parts: Collection[str] | None = None) -> dict[str, Any]:
        """With what is read from it: the two matrices."""
        found = super().tree(parts)
        if (parts is None or "matrices" in parts) and self.of_kind(CROSS):
            found["token_matrix"], found["word_matrix"] = plain(self.token_matrix()), plain(self.word_matrix())
        return found


def among(wanted: int, count: int, what: str) -> int:
    """One of so many layers or heads, counted from 0."""
    if not 0 <= wanted < count:
        raise UserError(f"{what} {wanted}: this attention has the {what}s 0 to {count - 1}")
    return wanted
