"""Beam search for outputs that have given terms (lexically constrained decoding).

Dynamic beam allocation (Post and Vilar 2018), for all sentences at once as in Hu et al. (2019): the candidates of a
step are the best continuations of each beam and, for each of them, the tokens that begin or continue a form of a term
that is missing. They are put into banks by the number of tokens that all missing terms still take, and the open beams
are taken in turn from every bank, the best ones first. Departures: a term has several forms; it counts only at word
boundaries, which the token after it decides; a term may also be no obligation but have a bonus.

What is searched for: the finished hypothesis with all obligatory terms that has the highest log-probability plus
bonuses, divided by the length penalty. A beam as wide as the search space finds it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from regard.decoding.beam import Beam, _no_nan
from regard.decoding.best import best
from regard.decoding.constraint_tensors import WordEdges, as_tensors
from regard.decoding.constraints import Constraint, tokens_needed
from regard.decoding.opening import first_ids
from regard.decoding.rules import Rule
from regard.decoding.search import pad_batch, run
from regard.hypothesis import Hypothesis, penalty
from regard.states import StepwiseDecoder, select_
from regard.types import END, Memory


@torch.inference_mode()
def constrained_beam(
    decoder: StepwiseDecoder,
    memory: Memory,
    constraints: Sequence[Sequence[Constraint]],
    edges: WordEdges,
    *,
    max_lengths: Int[Tensor, "B"],
    width: int = 12,
    n_best: int = 1,
    length_penalty: float = 1.0,
    rules: Sequence[Rule] = (),
    prefix: Int[Tensor, "B P"] | None = None,
) -> list[list[Hypothesis]]:
    """Up to `n_best` hypotheses per sentence, best first: those of `beam` that have the terms of `constraints`.

    A limit that leaves no room for the terms is raised: obligatory terms are never cut off. A score is that of the
    model, without bonuses.
    """
    sentences, device = len(memory), memory.states.device
    if sentences == 0:
        return []
    width = max(width, n_best)
    memory, rules, index = pad_batch(memory, rules)
    stated = as_tensors(constraints, device).select(index)
    needed = torch.tensor([tokens_needed(terms) for terms in constraints], device=device).index_select(0, index)
    ids = first_ids(sentences, prefix, device).index_select(0, index)
    forced = ids.shape[1] - 1
    limits = torch.maximum(max_lengths.to(device).index_select(0, index), forced + needed + 2)
    edges = edges.to(device)
    search = ConstrainedBeam.opened(
        decoder,
        memory,
        rules,
        ids,
        limits,
        sentences,
        width,
        n_best,
        length_penalty,
        edges,
        int(needed.max()) + 1,
        *stated,
        needed,
        torch.full((len(index), width), len(edges.begins), device=device),
        torch.zeros((len(index), width, *stated.tokens.shape[1:]), dtype=torch.bool, device=device),
        torch.zeros((len(index), width, stated.times.shape[1]), dtype=torch.long, device=device),
    )
    return run(search, sentences, forced)


@dataclass
class ConstrainedBeam(Beam):
    """A constrained search in progress. `pool` holds log-probabilities with bonuses after the length penalty."""

    edges: WordEdges
    banks: int
    tokens: Int[Tensor, "B K M"]
    sizes: Int[Tensor, "B K"]
    starts: Int[Tensor, "B K"]
    whole: Bool[Tensor, "B K"]
    of_term: Bool[Tensor, "B K G"]
    times: Int[Tensor, "B G"]
    bonus: Float[Tensor, "B G"]
    needed: Int[Tensor, "B"]
    """Tokens that all terms of a sentence take."""
    last: Int[Tensor, "B width"]
    """The last token of each open beam; the size of the vocabulary where the text begins."""
    matched: Bool[Tensor, "B width K M"]
    """Whether the last m + 1 tokens of a beam are the first of form k, begun where it may begin."""
    counts: Int[Tensor, "B width G"]
    """How often a term was written, without one whose word may still go on."""

    def setting(self) -> Hashable:
        return super().setting(), id(self.edges), self.banks

    def advance(self) -> None:
        count, width = self.totals.shape
        n_best, over = self.pool.shape[1], self.over[:, None]
        log_probs = self.read(self.table[:, n_best:].flatten(0, 1))
        now = ((self.written + (6 - self.forced)) / 6) ** self.length_penalty

        # Ending: at END every word ends, too.
        obligatory = self.bonus.isinf()[:, None]
        have = self.counts + self._of_terms(self._complete(self.matched) & self.whole[:, None])
        there = have >= self.times[:, None]
        bonus = torch.where(there & ~obligatory, self.bonus[:, None], 0.0).sum(-1)
        ends = self.totals + _no_nan(log_probs[:, END]).view(count, width)
        ends = ends.masked_fill((~there & obligatory).any(-1), -torch.inf)
        pool, kept = best(torch.cat([self.pool, (ends + bonus) / now], 1), n_best)
        pool_totals = torch.cat([self.pool_totals, ends], 1).gather(1, kept)

        # Continuing.
        log_probs[:, END] = -torch.inf
        sums, tokens = self._candidates(log_probs)
        matched, counts = self._after(tokens)
        left, left_obligatory = self._left(matched, counts)
        room = (self.limits - self.written - 2)[:, None, None]
        sums = sums.masked_fill((left_obligatory > 0) & (left_obligatory > room), -torch.inf)
        chosen = self._allocate(sums.flatten(1), left.flatten(1))
        totals = sums.flatten(1).gather(1, chosen)
        parents = chosen // tokens.shape[2]
        tokens = tokens.flatten(1).gather(1, chosen).masked_fill(over, END)

        entries = torch.where(over, self._entries(), torch.cat([kept, parents + n_best], 1))
        self.table.copy_(self.table.gather(1, entries[:, :, None].expand_as(self.table)))
        self.table[:, n_best:].index_copy_(2, self.written[None], tokens[:, :, None])
        self.pool.copy_(torch.where(over, self.pool, pool))
        self.pool_totals.copy_(torch.where(over, self.pool_totals, pool_totals))
        self.totals.copy_(torch.where(over, self.totals, totals))
        self.last.copy_(tokens)
        for kept_one, new in ((self.matched, matched), (self.counts, counts)):
            flat = new.flatten(1, 2)
            kept_one.copy_(flat.gather(1, chosen.view(count, width, *[1] * (flat.ndim - 2)).expand_as(kept_one)))
        self.written += 1

        hoped = self.totals.amax(1) + torch.where(self.bonus.isinf(), 0.0, self.bonus).sum(1)
        done = self.pool[:, -1] >= torch.where(hoped < 0, hoped / self.most, hoped)
        self.over |= done | (self.limits <= self.written)
        first = torch.arange(0, count * width, width, device=parents.device)
        select_(self.state, (parents + first[:, None]).flatten())
        self.feed(tokens.flatten())

    def _complete(self, matched: Bool[Tensor, "... K M"]) -> Bool[Tensor, "... K"]:
        """Which forms end at the last token."""
        between = [1] * (matched.ndim - 3)
        ends = (self.sizes - 1).clamp(min=0).view(len(self.sizes), *between, -1, 1)
        there = (self.sizes > 0).view(len(self.sizes), *between, -1)
        return matched.gather(-1, ends.expand(*matched.shape[:-1], 1))[..., 0] & there

    def _of_terms(self, forms: Bool[Tensor, "B W K"]) -> Int[Tensor, "B W G"]:
        """1 for every term of which one of the forms is marked."""
        return (forms[..., None] & self.of_term[:, None]).any(2).long()

    def _begin(self) -> Bool[Tensor, "B width K"]:
        """Which forms may begin with the next token."""
        after = self.edges.allows[self.last]
        return after.gather(2, self.starts[:, None].expand(-1, after.shape[1], -1))

    def _candidates(self, log_probs: Float[Tensor, "R V"]) -> tuple[Float[Tensor, "B W C"], Int[Tensor, "B W C"]]:
        """The likeliest tokens of each beam, and those that begin or continue a form of a missing term; each once."""
        count, width = self.totals.shape
        gains, likely = best(log_probs, min(width, log_probs.shape[1]))
        missing = ((self.counts < self.times[:, None])[:, :, None] & self.of_term[:, None]).any(-1)
        missing = missing & (self.sizes > 0)[:, None]
        before_end = torch.arange(self.tokens.shape[2], device=self.sizes.device) < self.sizes[:, :, None] - 1
        going = self.matched & before_end[:, None]
        reached = torch.where(going, torch.arange(1, self.tokens.shape[2] + 1, device=going.device), 0).amax(-1)
        onwards = self.tokens[:, None].expand(-1, width, -1, -1).gather(3, reached[..., None])[..., 0]
        first = self.tokens[:, None, :, 0].expand(-1, width, -1)
        wanted = torch.cat(
            [torch.where(missing & (reached > 0), onwards, -1), torch.where(missing & self._begin(), first, -1)], 2
        )
        tokens = torch.cat([likely.view(count, width, -1), wanted], 2)
        more = log_probs.view(count, width, -1).gather(2, wanted.clamp(min=0))
        gained = torch.cat([gains.view(count, width, -1), more], 2)
        repeated = (tokens[..., None] == tokens[..., None, :]).tril(-1).any(-1)
        sums = self.totals[:, :, None] + _no_nan(gained).masked_fill(repeated | (tokens < 0), -torch.inf)
        return sums, tokens.clamp(min=0)

    def _after(self, tokens: Int[Tensor, "B W C"]) -> tuple[Bool[Tensor, "B W C K M"], Int[Tensor, "B W C G"]]:
        """`matched` and `counts` after each candidate."""
        before = torch.cat([self._begin()[..., None], self.matched[..., :-1]], -1)
        matched = (tokens[..., None, None] == self.tokens[:, None, None]) & before[:, :, None]
        ended = self._of_terms(self._complete(self.matched) & self.whole[:, None])
        counts = self.counts[:, :, None] + ended[:, :, None] * self.edges.begins[tokens][..., None]
        open_ended = self._complete(matched) & ~self.whole[:, None, None]
        counts = counts + (open_ended[..., None] & self.of_term[:, None, None]).any(3)
        return matched & ~open_ended[..., None], counts

    def _left(
        self, matched: Bool[Tensor, "B W C K M"], counts: Int[Tensor, "B W C G"]
    ) -> tuple[Int[Tensor, "B W C"], Int[Tensor, "B W C"]]:
        """How many tokens the missing terms still take: all of them, and at most, of the obligatory ones.

        The latter counts what was begun of one term only: what continues it may end the others.
        """
        steps = torch.arange(1, matched.shape[-1] + 1, device=matched.device)
        rest = self.sizes[:, None, None] - torch.where(matched, steps, 0).amax(-1)
        far = 1 << 20
        rest_of_terms = rest[..., None].masked_fill(~self.of_term[:, None, None], far).amin(3)
        shortest = self.sizes[..., None].masked_fill(~self.of_term, far).amin(1)[:, None, None]
        missing = self.times[:, None, None] - counts
        left = torch.where(missing > 0, (missing - 1) * shortest + rest_of_terms, 0)
        at_most = (missing.clamp(min=0) * shortest).masked_fill(~self.bonus.isinf()[:, None, None], 0)
        begun = (at_most - left).masked_fill(at_most == 0, 0).clamp(min=0).amax(-1)
        return left.sum(-1), at_most.sum(-1) - begun

    def _allocate(self, sums: Float[Tensor, "B N"], left: Int[Tensor, "B N"]) -> Int[Tensor, "B width"]:
        """Which candidates stay open: the best of every bank, the second best of every bank, and so on."""
        width = self.totals.shape[1]
        sums, order = sums.sort(descending=True, stable=True)
        # With more banks than beams, several share a beam.
        scaled = torch.where(self.needed >= width, left.T * width // (self.needed + 1), left.T).T
        bank = scaled.clamp(max=self.banks - 1).gather(1, order)
        members = functional.one_hot(bank, self.banks)
        rank = (members.cumsum(1) * members).sum(2)
        turn = (rank * self.banks + bank).masked_fill(sums == -torch.inf, 1 << 40)
        return order.gather(1, turn.topk(min(width, turn.shape[1]), largest=False).indices)

    def results(self) -> list[list[Hypothesis]]:
        found = super().results()
        for one in (one for hypotheses in found for one in hypotheses if one.finished):
            one.score = one.log_probability / penalty(len(one.ids) + 1 - self.forced, self.length_penalty)
        return found
