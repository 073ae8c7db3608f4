"""The trace of one translation, as plain data: both texts, the attention between them, and the beam search."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard import word_alignment
from regard.errors import UserError
from regard.inspection.trace.base import CROSS, NO_WORD, SOURCE, Attention, Choice, Side, Trace, index_in, plain
from regard.inspection.trace.near import Near
from regard.inspection.trace.what_if import WhatIf


@dataclass
class Branch:
    """A hypothesis in a step of beam search: one token more than its parent, an index into the step before."""

    parent: int
    token: str
    log_probability: float
    chosen: bool
    """Whether it is a prefix of the translation that was chosen."""
    score: float | None = None
    """After the length penalty, of a hypothesis that ended here."""


@dataclass
class SearchStep:
    """The open hypotheses after a step, best first, and those that ended in it and were among the best so far."""

    open: list[Branch]
    ended: list[Branch]


@dataclass
class Candidate:
    """A translation that the search found."""

    text: str
    log_probability: float
    score: float
    """After the length penalty: candidates are ranked by it."""
    finished: bool


@dataclass
class Alternative:
    """A likely token at one decoding step."""

    id: int
    token: str
    probability: float


@dataclass(kw_only=True, repr=False)
class TranslationTrace(Trace):
    """The trace of one translation."""

    source: Side
    target: Side
    read: list[str]
    """The decoder's input at each step: BEGIN, then the target token before."""
    probabilities: list[float]
    """The probability of each target token, given those before it."""
    log_probability: float
    score: float
    finished: bool
    """False where the length limit cut it off: then there is no END."""
    beam: int = 1
    length_penalty: float = 1.0
    search: list[SearchStep] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    """The n-best list, best first."""
    of: int = 0
    """The index of the candidate that this trace is of."""
    ids: list[int] = field(default_factory=list)
    """The token ids of the target."""
    given: int = 0
    """How many of them were a forced prefix."""
    alternatives: list[list[Alternative]] = field(default_factory=list)
    """The most likely tokens at each step, given the tokens before it, most likely first."""
    source_ids: list[int] = field(default_factory=list)
    """The token ids of the source, END included."""
    what_if: WhatIf | None = None
    """The translation with parts switched off, as it was requested last (`what_if_of`)."""
    near: Near | None = None
    """The training examples nearest to the word that was requested last (`near_of`)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._what_if_key: tuple[Any, ...] = ()
        self.compute_what_if: Callable[[Choice], WhatIf] | None = None
        """Translates with the chosen parts switched off; set by the recorder that has the model."""
        self.compute_near: Callable[[Choice], Near] | None = None

    def what_if_of(self, choice: Choice) -> WhatIf:
        """The translation with `choice.without` switched off and `choice.patch` taken from another sentence."""
        if self.compute_what_if is None:
            raise UserError("this trace has no model; record it with regard.inspect")
        key = tuple(choice.without), choice.mean, tuple(choice.patch), choice.other
        if self.what_if is None or self._what_if_key != key:
            self.what_if, self._what_if_key = self.compute_what_if(choice), key
        return self.what_if

    def near_of(self, choice: Choice) -> Near:
        """The training examples nearest to word `choice.position` of the target, or of the source if
        `choice.attention` is SOURCE."""
        if self.compute_near is None:
            raise UserError("this trace has no model; record it with regard.inspect")
        self.near = self.compute_near(choice)
        return self.near

    def default_view(self) -> str:
        return "alignment" if self.of_kind(CROSS) else "gates"

    def texts(self) -> Sequence[Side]:
        return self.source, self.target

    def tokens(self, side: str) -> Sequence[str]:
        return self.source.tokens if side == SOURCE else self.read

    def outputs(self) -> Sequence[str]:
        return self.target.tokens

    def queries(self, kind: str) -> Sequence[str]:
        return self.target.tokens if kind == CROSS else super().queries(kind)

    def token_matrix(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """Cross-attention (target tokens, source tokens), averaged over all layers and heads, or over those chosen."""
        return average_heads(self.of_kind(CROSS), layer, head)

    def word_matrix(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """The same between words: summed over a source word's tokens, averaged over a target word's."""
        merged = word_alignment.word_matrix(self.token_matrix(layer, head), self.target.word_of, self.source.word_of)
        # A word at the end may have no token of its own.
        found = np.zeros((len(self.target.words), len(self.source.words)), np.float32)
        found[: merged.shape[0], : merged.shape[1]] = merged
        return found

    def word_probabilities(self) -> list[float]:
        """The probability of each target word, given those before it."""
        return word_probabilities(self.target, self.probabilities)

    def parts(self) -> set[str]:
        return super().parts() | {"matrices", "search", "ids", "alternatives", "source_ids", "what_if", "near"}

    def tree(self, parts: Collection[str] | None = None) -> dict[str, Any]:
        """Includes the two matrices."""
        found = super().tree(parts)
        if (parts is None or "matrices" in parts) and self.of_kind(CROSS):
            found["token_matrix"], found["word_matrix"] = plain(self.token_matrix()), plain(self.word_matrix())
        return found


def average_heads(layers: Sequence[Attention], layer: int | None = None, head: int | None = None) -> np.ndarray:
    """(queries, keys), averaged over all layers and heads, one layer, one head of each layer, or one head of one."""
    if layer is not None:
        layers = [layers[index_in(layer, len(layers), "layer")]]
    heads = None if head is None else [index_in(head, len(layers[0].weights), "head")]
    return word_alignment.average([torch.from_numpy(one.weights)[None] for one in layers], heads)[0].numpy()


def word_probabilities(target: Side, probabilities: Sequence[float]) -> list[float]:
    """The probability of each word: the product over its tokens."""
    found = [1.0] * len(target.words)
    for word, probability in zip(target.word_of if found else [], probabilities):
        if word != NO_WORD:
            found[word] *= probability
    return found
