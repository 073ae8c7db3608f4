"""What a search may not write: forbidden ids, loops, outputs that end too early.

A rule sees the tokens so far and writes -inf over the log-probabilities it forbids. Nothing is normalised again, so the
score of what a search finds is the score a teacher-forced model gives it. Rules know no model and no search.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from regard.types import BEGIN, END, PAD, UNKNOWN


class Rule(ABC):
    """Writes -inf in place where a row may not go on; `history` is what each row wrote after BEGIN."""

    @abstractmethod
    def __call__(self, history: Int[Tensor, "R T"], log_probs: Float[Tensor, "R V"]) -> None: ...

    @abstractmethod
    def narrow(self, sentences: Int[Tensor, "N"]) -> Rule:
        """The rule for some of the sentences only."""


class Forbid(Rule):
    """Some ids are never written."""

    def __init__(self, ids: Sequence[int] = (PAD, UNKNOWN, BEGIN)) -> None:
        self._ids = torch.tensor(ids, dtype=torch.long)

    def __call__(self, history: Int[Tensor, "R T"], log_probs: Float[Tensor, "R V"]) -> None:
        if self._ids.device != log_probs.device:
            self._ids = self._ids.to(log_probs.device)
        log_probs.index_fill_(1, self._ids, -torch.inf)

    def narrow(self, sentences: Int[Tensor, "N"]) -> Forbid:
        return self


class MinLength(Rule):
    """No END before `length` tokens are written."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, history: Int[Tensor, "R T"], log_probs: Float[Tensor, "R V"]) -> None:
        if history.shape[1] < self.length:
            log_probs[:, END] = -torch.inf

    def narrow(self, sentences: Int[Tensor, "N"]) -> MinLength:
        return self


class NoLoops(Rule):
    """No n-gram of up to `longest` tokens stands more than `allowed` times in a row (allowed: one number a sentence).

    k copies of an n-gram are (k - 1) * n tokens in a row that each equal the token n places before. So the token n
    places before the next one is forbidden when the last `allowed * n - 1` tokens already repeat in that way.
    """

    def __init__(self, allowed: Int[Tensor, "B"], rows: int, longest: int = 8) -> None:
        self.rows = rows
        self.longest = longest
        # How many repeats complete a loop, for n-grams of longest, ..., 2, 1 tokens.
        lengths = torch.arange(longest, 0, -1, device=allowed.device)
        needed = allowed[:, None] * lengths - 1
        self.span = max(1, int(needed.max()))
        self.shortest = int(allowed.min())
        newest_first = torch.arange(self.span - 1, -1, -1, device=allowed.device)
        self._irrelevant: Bool[Tensor, "B longest span"] = newest_first >= needed[:, :, None]

    def __call__(self, history: Int[Tensor, "R T"], log_probs: Float[Tensor, "R V"]) -> None:
        length, window = history.shape[1], self.span + self.longest
        if length < max(1, self.shortest):
            return
        if self._irrelevant.device != history.device:
            self._irrelevant = self._irrelevant.to(history.device)
        recent = history[:, -window:]
        if length < window:
            recent = functional.pad(recent, (window - length, 0), value=-1)
        # Row n of `shifted` is the recent past `longest - n` tokens earlier.
        shifted = recent.unfold(1, self.span, 1)[:, :-1]
        repeats = (shifted == recent[:, None, self.longest :]).view(-1, self.rows, self.longest, self.span)
        loops = (repeats | self._irrelevant[:, None]).all(-1).view(-1, self.longest)
        # Adding keeps it one operation even where two n-grams name the same token.
        cost = torch.where(loops, -torch.inf, 0.0).to(log_probs.dtype)
        log_probs.scatter_add_(1, recent[:, -self.longest :].clamp(min=0), cost)

    def narrow(self, sentences: Int[Tensor, "N"]) -> NoLoops:
        other = copy(self)
        other._irrelevant = self._irrelevant.index_select(0, sentences.to(self._irrelevant.device))
        return other


def loops_allowed(
    source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], longest: int = 8, at_least: int = 3
) -> Int[Tensor, "B"]:
    """How often an output may repeat an n-gram in a row: as often as its source does, and `at_least` times anyway."""
    size = source.shape[1]
    place = torch.arange(size, device=source.device)
    ids = torch.where(mask, source, -2 - place)  # padding equals nothing
    lengths = torch.arange(longest, 0, -1, device=source.device)
    shifted = functional.pad(ids, (longest, 0), value=-1).unfold(1, size, 1)[:, :-1]
    last_break = torch.where(shifted == ids[:, None], -1, place).cummax(-1).values
    copies = (place - last_break) // lengths[:, None] + 1
    return copies.amax((1, 2)).clamp(min=at_least)
