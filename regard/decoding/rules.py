"""Rules that constrain a search: forbidden ids, repetition loops, a minimum length. Those of times: timestamps.py.

A rule sees the tokens so far and writes -inf over the log-probabilities it forbids. They are not normalised again, so
the score of a hypothesis is the score that the model gives it under teacher forcing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from copy import copy

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from regard.types import BEGIN, END, PAD, UNKNOWN


class Rule(ABC):
    """Writes -inf in place over forbidden tokens; `history` is what each beam wrote after BEGIN.

    Only the first `written` tokens of the history are valid. `held` are the rule's tensors per sentence, `setting` all
    else that it depends on: two rules of one class and setting differ only in `held`.
    """

    def __init__(self, setting: Hashable = None, held: dict[str, Tensor] | None = None) -> None:
        self.setting = setting
        self.held = held or {}

    @abstractmethod
    def __call__(
        self, history: Int[Tensor, "R T"], log_probs: Float[Tensor, "R V"], written: Int[Tensor, ""] | None = None
    ) -> None: ...

    def narrow(self, sentences: Int[Tensor, "N"]) -> Rule:
        """The rule for these sentences only."""
        return self.holding({name: held.index_select(0, sentences.to(held.device)) for name, held in self.held.items()})

    def holding(self, held: dict[str, Tensor]) -> Rule:
        other = copy(self)
        other.held = held
        return other


class Forbid(Rule):
    """Some ids are never generated."""

    def __init__(self, ids: Sequence[int] = (PAD, UNKNOWN, BEGIN)) -> None:
        super().__init__(setting=tuple(ids))
        self._ids = torch.tensor(ids, dtype=torch.long)

    def __call__(
        self, history: Int[Tensor, "R T"], log_probs: Float[Tensor, "R V"], written: Int[Tensor, ""] | None = None
    ) -> None:
        if self._ids.device != log_probs.device:
            self._ids = self._ids.to(log_probs.device)
        log_probs.index_fill_(1, self._ids, -torch.inf)


class MinLength(Rule):
    """No END before `length` tokens."""

    def __init__(self, length: int) -> None:
        super().__init__(setting=length)
        self.length = length

    def __call__(
        self, history: Int[Tensor, "R T"], log_probs: Float[Tensor, "R V"], written: Int[Tensor, ""] | None = None
    ) -> None:
        if written is None:
            written = torch.tensor(history.shape[1], device=history.device)
        log_probs[:, END].masked_fill_(written < self.length, -torch.inf)


class ForbidFirst(Rule):
    """Some ids are not the first token, the one after `forced` tokens of a prefix."""

    def __init__(self, ids: Sequence[int], forced: int) -> None:
        super().__init__(setting=(tuple(ids), forced))
        self.forced = forced
        self._ids = torch.tensor(ids, dtype=torch.long)

    def __call__(
        self, history: Int[Tensor, "R T"], log_probs: Float[Tensor, "R V"], written: Int[Tensor, ""] | None = None
    ) -> None:
        if written is None:
            written = torch.tensor(history.shape[1], device=history.device)
        if self._ids.device != log_probs.device:
            self._ids = self._ids.to(log_probs.device)
        bias = torch.where(written == self.forced, -torch.inf, 0.0).to(log_probs.dtype)
        log_probs.index_add_(1, self._ids, bias.expand(len(log_probs), len(self._ids)))


class NoLoops(Rule):
    """No n-gram of up to `longest` tokens is repeated more than `allowed` times in a row (one number per sentence).

    k copies of an n-gram are (k - 1) * n tokens in a row that each equal the token n positions before. So the token n
    positions before the next one is forbidden when the last `allowed * n - 1` tokens already repeat in that way.
    """

    def __init__(self, allowed: Int[Tensor, "B"], beams: int, longest: int = 8) -> None:
        self.beams = beams
        self.longest = longest
        # How many repeats complete a loop, for n-grams of longest, ..., 2, 1 tokens.
        lengths = torch.arange(longest, 0, -1, device=allowed.device)
        needed = allowed[:, None] * lengths - 1
        self.span = max(1, int(needed.max()))
        self.shortest = max(1, int(allowed.min()))
        newest_first = torch.arange(self.span - 1, -1, -1, device=allowed.device)
        irrelevant: Bool[Tensor, "B longest span"] = newest_first >= needed[:, :, None]
        super().__init__(setting=(beams, longest), held={"irrelevant": irrelevant})

    def __call__(
        self, history: Int[Tensor, "R T"], log_probs: Float[Tensor, "R V"], written: Int[Tensor, ""] | None = None
    ) -> None:
        if history.shape[1] == 0:
            return
        if written is None:
            written = torch.tensor(history.shape[1], device=history.device)
        if written.device.type == "cpu" and int(written) < self.shortest:  # free on a CPU
            return
        irrelevant = self.held["irrelevant"]
        if irrelevant.device != history.device:
            irrelevant = self.held["irrelevant"] = irrelevant.to(history.device)
        positions = written + torch.arange(-(self.span + self.longest), 0, device=history.device)
        recent = torch.where(positions < 0, -1, history.index_select(1, positions.clamp(min=0)))
        # Row n of `shifted` is the recent past `longest - n` tokens earlier.
        shifted = recent.unfold(1, self.span, 1)[:, :-1]
        repeats = (shifted == recent[:, None, self.longest :]).view(-1, self.beams, self.longest, self.span)
        loops = (repeats | irrelevant[:, None]).all(-1).view(-1, self.longest)
        # Adding keeps it one operation even where two n-grams forbid the same token.
        bias = torch.where(loops, -torch.inf, 0.0).to(log_probs.dtype)
        log_probs.scatter_add_(1, recent[:, -self.longest :].clamp(min=0), bias)


class BeginWith(Rule):
    """The first tokens of each sentence's outputs are given; unlike those of a forced prefix, their probability counts.
    `tokens` are filled up with -1."""

    def __init__(self, tokens: Int[Tensor, "B P"], beams: int) -> None:
        super().__init__(setting=beams, held={"tokens": tokens})
        self.beams = beams

    def __call__(
        self, history: Int[Tensor, "R T"], log_probs: Float[Tensor, "R V"], written: Int[Tensor, ""] | None = None
    ) -> None:
        tokens = self.held["tokens"]
        if written is None:
            written = torch.tensor(history.shape[1], device=history.device)
        at = written.clamp(max=tokens.shape[1] - 1)
        given = tokens.index_select(1, at[None])[:, 0].masked_fill(written >= tokens.shape[1], -1)
        given = given.repeat_interleave(self.beams)[:, None]
        others = (torch.arange(log_probs.shape[1], device=given.device) != given) & (given >= 0)
        log_probs.masked_fill_(others, -torch.inf)


def loops_allowed(
    source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], longest: int = 8, at_least: int = 3
) -> Int[Tensor, "B"]:
    """How often an output may repeat an n-gram in a row: as often as its source does, but at least `at_least` times."""
    size = source.shape[1]
    position = torch.arange(size, device=source.device)
    ids = torch.where(mask, source, -2 - position)  # padding equals nothing
    lengths = torch.arange(longest, 0, -1, device=source.device)
    shifted = functional.pad(ids, (longest, 0), value=-1).unfold(1, size, 1)[:, :-1]
    last_break = torch.where(shifted == ids[:, None], -1, position).cummax(-1).values
    copies = (position - last_break) // lengths[:, None] + 1
    return copies.amax((1, 2)).clamp(min=at_least)
