"""Beam search with `width` open beams per sentence, all sentences at once.

In each step every beam also considers ending: its END competes for the pool of the `n_best` finished hypotheses of its
sentence. The `width` best other continuations stay open. A sentence is finished when no open beam can enter the pool
any more. Log-probabilities only fall, and the penalty that divides them is largest at the length limit, so the best
score a beam can reach is its log-probability over the penalty at the limit: stopping there loses nothing, and a beam as
wide as the search space finds the exact optimum.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.best import best
from regard.decoding.opening import first_ids
from regard.decoding.rules import Rule
from regard.decoding.search import FIRST_CAPACITY, Search, pad_batch, padded_length, run, uses_cuda_graphs
from regard.decoding.step_callback import Step, step_callback
from regard.errors import UserError
from regard.hypothesis import Hypothesis, penalty
from regard.states import StepwiseDecoder, select_
from regard.types import END, Memory


@torch.inference_mode()
def beam(
    decoder: StepwiseDecoder,
    memory: Memory,
    *,
    max_lengths: Int[Tensor, "B"],
    width: int = 4,
    n_best: int = 1,
    length_penalty: float = 1.0,
    rules: Sequence[Rule] = (),
    prefix: Int[Tensor, "B P"] | None = None,
) -> list[list[Hypothesis]]:
    """Up to `n_best` hypotheses per sentence, best first, of at most `max_lengths` tokens (prefix and END included).

    The beam is at least `n_best` wide. Hypotheses cut off by the limit are returned only where none finished. `ids`
    begin with the forced prefix, but neither its probability nor its length counts.
    """
    if width < 1 or n_best < 1:
        raise UserError(f"beam {width} with n_best {n_best}: both must be at least 1")
    if not 0 <= length_penalty <= 10:
        raise UserError(f"length_penalty {length_penalty} is out of range; use 0 to 10")
    sentences, device = len(memory), memory.states.device
    if sentences == 0:
        return []
    width = max(width, n_best)
    memory, rules, index = pad_batch(memory, rules)
    ids = first_ids(sentences, prefix, device).index_select(0, index)
    forced = ids.shape[1] - 1
    limits = max_lengths.to(device).clamp(min=forced + 1).index_select(0, index)
    search = Beam.opened(decoder, memory, rules, ids, limits, sentences, width, n_best, length_penalty)
    return run(search, sentences, forced)


@dataclass
class Beam(Search):
    """A beam search in progress."""

    table: Int[Tensor, "B E L"]
    pool: Float[Tensor, "B n_best"]
    """The scores of the finished hypotheses."""
    totals: Float[Tensor, "B width"]
    """The log-probabilities of the open beams."""
    most: Float[Tensor, "B"]
    """The length penalty at the limit."""
    forced: int
    length_penalty: float

    @classmethod
    def opened(
        cls,
        decoder: StepwiseDecoder,
        memory: Memory,
        rules: Sequence[Rule],
        ids: Int[Tensor, "B T"],
        limits: Int[Tensor, "B"],
        sentences: int,
        width: int,
        n_best: int,
        length_penalty: float,
        *more: Any,
    ) -> Beam:
        """A search that begins with `ids`, BEGIN and a forced prefix. Only the first `sentences` of the batch count,
        the others pad it; `more` are the values of further fields."""
        count, device, forced = len(ids), ids.device, ids.shape[1] - 1
        longest = padded_length(int(limits.max()), uses_cuda_graphs(device))
        # The tokens after BEGIN, filled up with END: of the n_best finished hypotheses, then of the open beams.
        table = torch.full((count, n_best + width, longest), END, device=device)
        table[:, :, :forced] = ids[:, None, 1:]
        # At first all beams are equal, so only one is open; -inf marks a beam without continuation.
        totals = torch.full((count, width), -torch.inf, device=device)
        totals[:, 0] = 0.0
        return cls(
            decoder,
            rules,
            decoder.start(memory, width, min(longest, max(FIRST_CAPACITY, forced + 1))),
            ids.repeat_interleave(width, 0),
            torch.tensor(forced, device=device),
            limits,
            torch.arange(count, device=device) >= sentences,
            table,
            torch.full((count, n_best), -torch.inf, device=device),
            totals,
            ((5.0 + (limits - forced)) / 6) ** length_penalty,
            forced,
            length_penalty,
            *more,
        )

    def setting(self) -> Hashable:
        return super().setting(), self.forced, self.length_penalty

    def advance(self) -> None:
        count, width = self.totals.shape
        n_best, over = self.pool.shape[1], self.over[:, None]
        log_probs = self.read(self.table[:, n_best:].flatten(0, 1))
        now = ((self.written + (6 - self.forced)) / 6) ** self.length_penalty

        ends = self.totals + _no_nan(log_probs[:, END]).view(count, width)
        pool, kept = best(torch.cat([self.pool, ends / now], 1), n_best)
        log_probs[:, END] = -torch.inf
        gains, tokens = best(log_probs, min(width, log_probs.shape[1]))
        sums = self.totals[:, :, None] + _no_nan(gains).view(count, width, -1)
        totals, chosen = best(sums.flatten(1), width)
        parents = chosen // gains.shape[1]
        tokens = tokens.view(count, -1).gather(1, chosen).masked_fill(over, END)
        if callback := step_callback():
            entered = (kept[:, :, None] == torch.arange(width, device=kept.device) + n_best).any(1)
            callback(Step(parents, tokens, totals, ends, ends / now, entered & (ends > -torch.inf)))

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
        cut_scores = self.totals / (((5.0 + (written - self.forced)) / 6) ** self.length_penalty)[:, None]
        lengths = written.tolist()
        # At most n_best open beams are returned, too, and none has more tokens than the longest.
        table = self.table[:, : 2 * self.pool.shape[1], : max(lengths)]
        return list(_collect(table, self.pool, cut_scores, lengths, self.forced, self.length_penalty))


def _no_nan(log_probs: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Logits of only -inf give NaN after the softmax: such a beam has no continuation."""
    return log_probs.nan_to_num(nan=-torch.inf, neginf=-torch.inf)


def _collect(
    table: Int[Tensor, "N E L"],
    pool: Float[Tensor, "N n_best"],
    cut_scores: Float[Tensor, "N width"],
    lengths: list[int],
    forced: int,
    length_penalty: float,
) -> Iterator[list[Hypothesis]]:
    """The hypotheses of finished sentences: those that ended, or else those cut off at `lengths`."""
    n_best = pool.shape[1]
    for entries, scores, cuts, length in zip(table.tolist(), pool.tolist(), cut_scores.tolist(), lengths, strict=True):
        hypotheses = []
        for row, score in zip(entries[:n_best], scores, strict=True):
            ids = row[: row.index(END, forced)]
            hypotheses.append(Hypothesis(ids, score * penalty(len(ids) + 1 - forced, length_penalty), score))
        if scores[0] == -torch.inf:
            factor = penalty(length - forced, length_penalty)
            hypotheses = [
                Hypothesis(row[:length], score * factor, score, finished=False)
                for row, score in zip(entries[n_best:][:n_best], cuts, strict=False)
            ]
        possible = [hypothesis for hypothesis in hypotheses if hypothesis.score > -torch.inf]
        # Where the rules allow nothing at all, the answer is empty.
        yield possible or [Hypothesis(entries[0][:forced], -torch.inf, -torch.inf, finished=False)]
