"""Beam search with `width` open beams per sentence, all sentences at once.

In each step every beam also considers ending: its END competes for the pool of the `n_best` finished hypotheses of its
sentence. The `width` best other continuations stay open. A sentence is finished when no open beam can enter the pool
any more. Log-probabilities only fall, and the penalty that divides them is largest at the length limit, so the best
score a beam can reach is its log-probability over the penalty at the limit: stopping there loses nothing, and a beam as
wide as the search space finds the exact optimum.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
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
    pool_totals: Float[Tensor, "B n_best"]
    """Their log-probabilities."""
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
        bonus = getattr(self.decoder, "final_bonus", None)  # what a decoder adds, at most 0 (task/_coverage.py)
        scores = ends / now + (bonus(self.state).view_as(ends) if bonus else 0.0)
        pool, kept = self.keep(scores)
        pool_totals = torch.cat([self.pool_totals, ends], 1).gather(1, kept)
        log_probs[:, END] = -torch.inf
        totals, parents, tokens = self.extend(log_probs)
        tokens = tokens.masked_fill(over, END)
        if callback := step_callback():
            entered = (kept[:, :, None] == torch.arange(width, device=kept.device) + n_best).any(1)
            callback(Step(parents, tokens, totals, ends, scores, entered & (ends > -torch.inf)))

        entries = torch.where(over, self._entries(), torch.cat([kept, parents + n_best], 1))
        self.table.copy_(self.table.gather(1, entries[:, :, None].expand_as(self.table)))
        self.table[:, n_best:].index_copy_(2, self.written[None], tokens[:, :, None])
        self.pool.copy_(torch.where(over, self.pool, pool))
        self.pool_totals.copy_(torch.where(over, self.pool_totals, pool_totals))
        self.totals.copy_(torch.where(over, self.totals, totals))
        self.written += 1

        self.over |= self.settled() | (self.limits <= self.written)
        if width > 1:
            first = torch.arange(0, count * width, width, device=parents.device)
            select_(self.state, (parents + first[:, None]).flatten())
        self.feed(tokens.flatten())

    def keep(self, scores: Float[Tensor, "B width"]) -> tuple[Float[Tensor, "B n_best"], Int[Tensor, "B n_best"]]:
        """The pool after these scores, and its entries of the table."""
        return best(torch.cat([self.pool, scores], 1), self.pool.shape[1])

    def extend(self, log_probs: Float[Tensor, "R V"]) -> tuple[Tensor, Tensor, Tensor]:
        """The next open beams: their log-probabilities, which beams they continue, and with which tokens."""
        count, width = self.totals.shape
        gains, tokens = best(log_probs, min(width, log_probs.shape[1]))
        sums = self.totals[:, :, None] + _no_nan(gains).view(count, width, -1)
        totals, chosen = best(sums.flatten(1), width)
        return totals, chosen // gains.shape[1], tokens.view(count, -1).gather(1, chosen)

    def settled(self) -> Bool[Tensor, "B"]:
        """Where no open beam can enter the pool any more."""
        return self.pool[:, -1] >= self.totals[:, 0] / self.most

    def _entries(self) -> Int[Tensor, "E"]:
        return torch.arange(self.table.shape[1], device=self.table.device)

    def results(self) -> list[list[Hypothesis]]:
        """The hypotheses that ended, or else those cut off at the limit."""
        n_best, written = self.pool.shape[1], torch.minimum(self.limits, self.written)
        cut_scores = self.totals / (((5.0 + (written - self.forced)) / 6) ** self.length_penalty)[:, None]
        lengths = written.tolist()
        # At most n_best open beams are returned, too, and none has more tokens than the longest.
        table = self.table[:, : 2 * n_best, : max(lengths)].tolist()
        ranked = zip(self.pool.tolist(), self.pool_totals.tolist(), strict=True)
        found = []
        for rows, (scores, totals), cuts, length in zip(table, ranked, cut_scores.tolist(), lengths, strict=True):
            ended = zip(rows[:n_best], totals, scores, strict=True)
            hypotheses = [Hypothesis(row[: row.index(END, self.forced)], total, score) for row, total, score in ended]
            if scores[0] == -torch.inf:
                factor = penalty(length - self.forced, self.length_penalty)
                cut = zip(rows[n_best:], cuts, strict=False)
                hypotheses = [Hypothesis(row[:length], score * factor, score, finished=False) for row, score in cut]
            possible = [hypothesis for hypothesis in hypotheses if hypothesis.score > -torch.inf]
            # Where the rules allow nothing at all, the answer is empty.
            found.append(possible or [Hypothesis(rows[0][: self.forced], -torch.inf, -torch.inf, finished=False)])
        return found


def _no_nan(log_probs: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Logits of only -inf give NaN after the softmax: such a beam has no continuation."""
    return log_probs.nan_to_num(nan=-torch.inf, neginf=-torch.inf)
