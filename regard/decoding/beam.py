"""Beam search: the best hypotheses among `width` open ones a sentence, all sentences together.

In each step every open row offers to end: its END competes for the pool of the `n_best` finished hypotheses of its
sentence. The `width` best other continuations stay open. A sentence is done when no open row can reach the pool any
more. Log-probabilities only fall, and the penalty that divides them is largest at the length limit, so the most a row
can reach is its log-probability over the penalty at the limit: stopping there loses nothing, and a beam as wide as the
space finds what brute force finds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.best import best
from regard.decoding.opening import first_ids
from regard.decoding.recording import wanted
from regard.decoding.rules import Rule
from regard.decoding.search import FIRST_SLOTS, Search, filled_up, room, run
from regard.decoding.watching import Step, watcher
from regard.errors import UserError
from regard.types import END, Hypothesis, Memory, Steps, select_


def penalty(length: int, exponent: float) -> float:
    """What a log-probability is divided by (Wu et al. 2016, eq. 14); `length` counts END."""
    return ((5 + length) / 6) ** exponent


@torch.inference_mode()
def beam(
    decoder: Steps,
    memory: Memory,
    *,
    max_lengths: Int[Tensor, "B"],
    width: int = 4,
    n_best: int = 1,
    length_penalty: float = 1.0,
    rules: Sequence[Rule] = (),
    prefix: Int[Tensor, "B P"] | None = None,
) -> list[list[Hypothesis]]:
    """Up to `n_best` hypotheses a sentence, best first, of at most `max_lengths` tokens (prefix and END included).

    The beam is at least `n_best` wide. Hypotheses that the limit cuts are returned only where none finished. A prefix
    is given, not chosen: it opens `ids`, but neither its probability nor its length counts.
    """
    if width < 1 or n_best < 1:
        raise UserError(f"beam {width} with n_best {n_best}: both must be at least 1")
    if not 0 <= length_penalty <= 10:
        raise UserError(f"length_penalty {length_penalty} is out of range; use 0 to 10")
    sentences, device = len(memory), memory.states.device
    if sentences == 0:
        return []
    width = max(width, n_best)
    memory, rules, index = filled_up(memory, rules)
    ids = first_ids(sentences, prefix, device).index_select(0, index)
    given = ids.shape[1] - 1
    limits = max_lengths.to(device).clamp(min=given + 1).index_select(0, index)
    longest, recorded = int(limits.max()), wanted(device)

    # The tokens after BEGIN, END from the end on: of the n_best finished rows, then of the open ones.
    table = torch.full((len(index), n_best + width, room(longest, recorded)), END, device=device)
    table[:, :, :given] = ids[:, None, 1:]
    # At first all rows are the same, so one of them is open; -inf marks a row that leads nowhere.
    totals = torch.full((len(index), width), -torch.inf, device=device)
    totals[:, 0] = 0.0
    search = Beam(
        decoder,
        rules,
        decoder.start(memory, width, min(table.shape[2], max(FIRST_SLOTS, given + 1))),
        ids.repeat_interleave(width, 0),
        torch.tensor(given, device=device),
        limits,
        torch.arange(len(index), device=device) >= sentences,
        table,
        torch.full((len(index), n_best), -torch.inf, device=device),
        totals,
        ((5.0 + (limits - given)) / 6) ** length_penalty,
        given,
        length_penalty,
    )
    return run(search, sentences, given)


@dataclass
class Beam(Search):
    """Sentences of `width` open rows each."""

    table: Int[Tensor, "B E L"]
    pool: Float[Tensor, "B n_best"]
    """The scores of the finished hypotheses."""
    totals: Float[Tensor, "B width"]
    """The log-probabilities of the open ones."""
    most: Float[Tensor, "B"]
    """The penalty at the limit."""
    given: int
    length_penalty: float

    def setting(self) -> Hashable:
        return super().setting(), self.given, self.length_penalty

    def advance(self) -> None:
        count, width = self.totals.shape
        n_best, over = self.pool.shape[1], self.over[:, None]
        log_probs = self.read(self.table[:, n_best:].flatten(0, 1))
        now = ((self.written + (6 - self.given)) / 6) ** self.length_penalty

        ends = self.totals + _no_nan(log_probs[:, END]).view(count, width)
        pool, kept = best(torch.cat([self.pool, ends / now], 1), n_best)
        log_probs[:, END] = -torch.inf
        gains, tokens = best(log_probs, min(width, log_probs.shape[1]))
        sums = self.totals[:, :, None] + _no_nan(gains).view(count, width, -1)
        totals, chosen = best(sums.flatten(1), width)
        parents = chosen // gains.shape[1]
        tokens = tokens.view(count, -1).gather(1, chosen).masked_fill(over, END)
        if told := watcher():
            entered = (kept[:, :, None] == torch.arange(width, device=kept.device) + n_best).any(1) & (
                ends > -torch.inf
            )
            told(Step(parents, tokens, totals, ends, ends / now, entered))

        entries = torch.where(over, self._entries(), torch.cat([kept, parents + n_best], 1))
        self.table.copy_(self.table.gather(1, entries[:, :, None].expand_as(self.table)))
        self.table[:, n_best:].index_copy_(2, self.written[None], tokens[:, :, None])
        self.pool.copy_(torch.where(over, self.pool, pool))
        self.totals.copy_(torch.where(over, self.totals, totals))
        self.written += 1

        done = self.pool[:, -1] >= self.totals[:, 0] / self.most
        self.over |= done | (self.limits <= self.written)
        if width > 1:
            first = torch.arange(0, count * width, width, device=parents.device)
            select_(self.state, (parents + first[:, None]).flatten())
        self.feed(tokens.flatten())

    def _entries(self) -> Int[Tensor, "E"]:
        return torch.arange(self.table.shape[1], device=self.table.device)

    def results(self) -> list[list[Hypothesis]]:
        written = torch.minimum(self.limits, self.written)
        cut_scores = self.totals / (((5.0 + (written - self.given)) / 6) ** self.length_penalty)[:, None]
        lengths = written.tolist()
        # Of the open rows as many may be wanted as of the finished ones, and none has more than the longest's tokens.
        table = self.table[:, : 2 * self.pool.shape[1], : max(lengths)]
        return list(_collect(table, self.pool, cut_scores, lengths, self.given, self.length_penalty))


def _no_nan(log_probs: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """A decoder that says -inf to everything gives NaN after the softmax: such a row leads nowhere."""
    return log_probs.nan_to_num(nan=-torch.inf, neginf=-torch.inf)


def _collect(
    table: Int[Tensor, "N E L"],
    pool: Float[Tensor, "N n_best"],
    cut_scores: Float[Tensor, "N width"],
    lengths: list[int],
    given: int,
    length_penalty: float,
) -> Iterator[list[Hypothesis]]:
    """The hypotheses of sentences that are over after so many tokens: the finished ones, or else those cut there."""
    n_best = pool.shape[1]
    for entries, scores, cuts, length in zip(table.tolist(), pool.tolist(), cut_scores.tolist(), lengths, strict=True):
        hypotheses = []
        for row, score in zip(entries[:n_best], scores, strict=True):
            ids = row[: row.index(END, given)]
            hypotheses.append(Hypothesis(ids, score * penalty(len(ids) + 1 - given, length_penalty), score))
        if scores[0] == -torch.inf:
            factor = penalty(length - given, length_penalty)
            hypotheses = [
                Hypothesis(row[:length], score * factor, score, finished=False)
                for row, score in zip(entries[n_best:][:n_best], cuts, strict=False)
            ]
        possible = [hypothesis for hypothesis in hypotheses if hypothesis.score > -torch.inf]
        # Where the rules leave nothing at all, nothing is the answer.
        yield possible or [Hypothesis(entries[0][:given], -torch.inf, -torch.inf, finished=False)]
