"""Diverse beam search (Vijayakumar et al. 2018): the beams are divided into groups that avoid each other's tokens.

In each step the groups choose one after the other. A token loses `diversity` log-probability for each open beam of an
earlier group that chose it in this step (Hamming diversity). The loss only decides which beams stay open: it is in no
hypothesis's log-probability or score, and ending is free. Every group has a pool of finished hypotheses of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.beam import Beam, _no_nan
from regard.decoding.best import best
from regard.decoding.opening import first_ids
from regard.decoding.rules import Rule
from regard.decoding.search import pad_batch, run
from regard.errors import UserError
from regard.hypothesis import Hypothesis
from regard.states import StepwiseDecoder
from regard.types import Memory


@torch.inference_mode()
def diverse_beam(
    decoder: StepwiseDecoder,
    memory: Memory,
    *,
    max_lengths: Int[Tensor, "B"],
    groups: int,
    diversity: float,
    width: int = 4,
    n_best: int = 1,
    length_penalty: float = 1.0,
    rules: Sequence[Rule] = (),
    prefix: Int[Tensor, "B P"] | None = None,
) -> list[list[Hypothesis]]:
    """As `beam`, with `width` open beams in `groups` of the same size: the best hypotheses of all groups, then their
    second best, and so on, up to `n_best` different ones, sorted by score."""
    if groups < 1 or width % groups or n_best > width:
        raise UserError(f"beam {width} cannot be divided into {groups} groups; use a multiple of it")
    sentences, device = len(memory), memory.states.device
    if sentences == 0:
        return []
    memory, rules, index = pad_batch(memory, rules)
    ids = first_ids(sentences, prefix, device).index_select(0, index)
    forced = ids.shape[1] - 1
    limits = max_lengths.to(device).clamp(min=forced + 1).index_select(0, index)
    own = min(n_best, width // groups)
    search = DiverseBeam.opened(
        decoder, memory, rules, ids, limits, sentences, width, own * groups, length_penalty, groups, diversity
    )
    search.totals[:, :: width // groups] = 0.0  # each group begins with one open beam
    found = run(search, sentences, forced)
    return [sorted(row[:n_best], key=lambda one: -one.score) for row in found]


@dataclass
class DiverseBeam(Beam):
    """A diverse search in progress. Pool and open beams are in the order of their groups."""

    groups: int
    diversity: float

    def setting(self) -> Hashable:
        return super().setting(), self.groups, self.diversity

    def keep(self, scores: Float[Tensor, "B width"]) -> tuple[Float[Tensor, "B n_best"], Int[Tensor, "B n_best"]]:
        pool, scores = self._grouped(self.pool), self._grouped(scores)
        size, number = pool.shape[2], torch.arange(self.groups, device=pool.device)[:, None]
        pool, kept = best(torch.cat([pool, scores], 2).flatten(0, 1), size)
        kept = kept.view(-1, self.groups, size)
        beams = self.groups * size + number * scores.shape[2] + kept - size
        entries = torch.where(kept < size, number * size + kept, beams)
        return pool.view_as(self.pool), entries.flatten(1)

    def extend(self, log_probs: Float[Tensor, "R V"]) -> tuple[Tensor, Tensor, Tensor]:
        size = self.totals.shape[1] // self.groups
        of_beams = _no_nan(log_probs).view(*self.totals.shape, -1)
        taken = torch.zeros_like(of_beams[:, 0])
        chosen = []
        for first in range(0, self.totals.shape[1], size):
            own, before = of_beams[:, first : first + size], self.totals[:, first : first + size]
            wanted, tokens = best((own - self.diversity * taken[:, None]).flatten(0, 1), min(size, own.shape[2]))
            tokens = tokens.view(len(own), -1)
            sums = before[:, :, None] + wanted.view(len(own), size, -1)
            sums, order = best(sums.flatten(1), size)
            tokens, parents = tokens.gather(1, order), order // (tokens.shape[1] // size)
            gains = own.flatten(1).gather(1, parents * own.shape[2] + tokens)
            totals = before.gather(1, parents) + gains
            taken = taken.scatter_add(1, tokens, (totals > -torch.inf).to(taken.dtype))
            chosen.append((totals, parents + first, tokens))
        totals, parents, tokens = (torch.cat(parts, 1) for parts in zip(*chosen))
        return totals, parents, tokens

    def settled(self) -> Bool[Tensor, "B"]:
        most = self._grouped(self.totals).amax(2) / self.most[:, None]
        return (self._grouped(self.pool)[:, :, -1] >= most).all(1)

    def results(self) -> list[list[Hypothesis]]:
        """Of each sentence: the best of every group, the second best of every group, and so on, each only once."""
        pool = self._grouped(self.pool)
        pool, order = pool.transpose(1, 2).sort(dim=2, descending=True)
        ranks = torch.arange(pool.shape[1], device=pool.device)[:, None]
        entries = (order * pool.shape[1] + ranks).flatten(1)  # a group's own are next to each other in the pool
        table = self.table.clone()
        count = entries.shape[1]
        table[:, :count] = self.table[:, :count].gather(1, entries[:, :, None].expand(-1, -1, table.shape[2]))
        ordered = replace(self, pool=pool.flatten(1), pool_totals=self.pool_totals.gather(1, entries), table=table)
        found = Beam.results(ordered)
        return [list({tuple(one.ids): one for one in row}.values()) for row in found]

    def _grouped(self, of_beams: Float[Tensor, "B N"]) -> Float[Tensor, "B G N_by_G"]:
        return of_beams.unflatten(1, (self.groups, -1))
