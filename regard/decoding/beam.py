"""Beam search: the best hypotheses among `width` open ones a sentence, all sentences together.

In each step every open row offers to end: its END competes for the pool of the `n_best` finished hypotheses of its
sentence. The `width` best other continuations stay open. A sentence is done when no open row can reach the pool any
more. Log-probabilities only fall, and the penalty that divides them is largest at the length limit, so the most a row
can reach is its log-probability over the penalty at the limit: stopping there loses nothing, and a beam as wide as the
space finds what brute force finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.best import best
from regard.decoding.opening import first_ids, next_log_probs
from regard.decoding.rules import Rule
from regard.errors import UserError
from regard.types import END, Hypothesis, Memory, Steps, narrow, select_


def penalty(length: int, exponent: float) -> float:
    """What a log-probability is divided by (Wu et al. 2016, eq. 14); `length` counts END."""
    return ((5 + length) / 6) ** exponent


@torch.no_grad()
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
    ids = first_ids(sentences, prefix, device)
    given = ids.shape[1] - 1
    limits = max_lengths.cpu().clamp(min=given + 1)  # known to the host, so that reaching one costs no waiting
    longest = int(limits.max())

    state = decoder.start(memory, width, longest)
    # The tokens after BEGIN, END from the end on: of the n_best finished rows, then of the open ones.
    table = torch.full((sentences, n_best + width, longest), END, device=device)
    table[:, :, :given] = ids[:, None, 1:]
    ids = ids.repeat_interleave(width, 0)
    pool = torch.full((sentences, n_best), -torch.inf, device=device)
    # At first all rows are the same, so one of them is open; -inf marks a row that leads nowhere.
    totals = torch.full((sentences, width), -torch.inf, device=device)
    totals[:, 0] = 0.0
    top_penalty = torch.tensor([penalty(limit - given, length_penalty) for limit in limits.tolist()], device=device)
    numbers = torch.arange(sentences, device=device)[:, None]
    first_row = numbers * width
    first_entry = numbers * (n_best + width) + torch.tensor([0] * n_best + [n_best] * width, device=device)
    order = torch.arange(sentences)
    found: list[list[Hypothesis]] = [[] for _ in range(sentences)]

    for length in range(given + 1, longest + 1):
        count = len(order)
        logits, state = decoder.step(ids, state)
        log_probs = next_log_probs(logits, table[:, n_best:, : length - 1].flatten(0, 1), rules)

        now = penalty(length - given, length_penalty)
        ends = totals + _no_nan(log_probs[:, END]).view(count, width)
        pool, kept = best(torch.cat([pool, ends / now], 1), n_best)

        log_probs[:, END] = -torch.inf
        gains, tokens = best(log_probs, min(width, log_probs.shape[1]))
        sums = totals[:, :, None] + _no_nan(gains).view(count, width, -1)
        totals, chosen = best(sums.flatten(1), width)
        parents = chosen // gains.shape[1]
        tokens = tokens.view(count, -1).gather(1, chosen)

        entries = torch.cat([kept, parents], 1) + first_entry[:count]
        table = table.flatten(0, 1).index_select(0, entries.flatten()).view_as(table)
        table[:, n_best:, length - 1] = tokens

        done = pool[:, -1] >= totals[:, 0] / top_penalty
        cut = limits == length
        leaving = done.cpu() | cut
        # Leaving costs a copy of all states, so the done wait until they are a quarter; those at their limit cannot.
        if cut.any() or 4 * int(leaving.count_nonzero()) >= count:
            out = leaving.nonzero()[:, 0]
            rows = out.to(device)
            for number, hypotheses in zip(
                order[out].tolist(),
                _collect(table[rows], pool[rows], totals[rows] / now, length, given, length_penalty),
                strict=True,
            ):
                found[number] = hypotheses
            stay = (~leaving).nonzero()[:, 0]
            if len(stay) == 0:
                break
            order, limits = order[stay], limits[stay]
            stay = stay.to(device)
            state, rules = narrow(state, stay), [rule.narrow(stay) for rule in rules]
            table, pool, totals, top_penalty, parents, tokens, done = (
                t.index_select(0, stay) for t in (table, pool, totals, top_penalty, parents, tokens, done)
            )
        totals = totals.masked_fill(done[:, None], -torch.inf)  # what is done stays as it is
        if width > 1:
            select_(state, (parents + first_row[: len(order)]).flatten(), filled=length)
        ids = tokens.view(-1, 1)
    return found


def _no_nan(log_probs: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """A decoder that says -inf to everything gives NaN after the softmax: such a row leads nowhere."""
    return log_probs.nan_to_num(nan=-torch.inf, neginf=-torch.inf)


def _collect(
    table: Int[Tensor, "N E L"],
    pool: Float[Tensor, "N n_best"],
    cut_scores: Float[Tensor, "N width"],
    length: int,
    given: int,
    length_penalty: float,
) -> Iterator[list[Hypothesis]]:
    """The hypotheses of sentences that leave after `length` tokens: the finished ones, or else those cut here."""
    n_best = pool.shape[1]
    for entries, scores, cuts in zip(table.tolist(), pool.tolist(), cut_scores.tolist(), strict=True):
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
