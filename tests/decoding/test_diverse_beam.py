"""Diverse beam search against plain Python, against the plain search, and batched against alone."""

from __future__ import annotations

import math

import pytest
import torch

from regard.decoding.beam import beam
from regard.decoding.diverse_beam import diverse_beam
from regard.errors import UserError
from regard.hypothesis import penalty
from regard.types import END

from .table import Table


def spelled_out(
    table: Table, key: int, limit: int, width: int, groups: int, diversity: float, alpha: float
) -> list[list[tuple[float, list[int]]]]:
    """The finished hypotheses of each group, best first; every group goes on to the limit."""
    size = width // groups
    rows: list[list[tuple[float, list[int]]]] = [[(0.0, [])] for _ in range(groups)]
    pools: list[list[tuple[float, list[int]]]] = [[] for _ in range(groups)]
    for length in range(1, limit + 1):
        taken = [0] * table.vocabulary
        for group in range(groups):
            onwards = []
            for total, tokens in rows[group]:
                for token, gain in enumerate(table.log_probs(key, tokens)):
                    if gain == -math.inf:
                        continue
                    if token == END:
                        pools[group].append(((total + gain) / penalty(length, alpha), tokens))
                    else:
                        wanted = total + gain - diversity * taken[token]
                        onwards.append((wanted, total + gain, [*tokens, token]))
            kept = sorted(onwards, reverse=True)[:size]
            rows[group] = [(total, tokens) for _, total, tokens in kept]
            for _, tokens in rows[group]:
                taken[tokens[-1]] += 1
    return [sorted(pool, reverse=True) for pool in pools]


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("n_best", [1, 3])
def test_it_is_the_algorithm_spelled_out(groups: int, n_best: int) -> None:
    different = 0
    for seed in range(8):
        table = Table(12, seed, end=-0.5)
        (found,) = diverse_beam(
            table,
            table.memory([seed]),
            max_lengths=torch.tensor([6]),
            groups=groups,
            diversity=1.5,
            width=6,
            n_best=n_best,
        )
        pools = spelled_out(table, seed, 6, 6, groups, 1.5, 1.0)
        by_rank: dict[tuple[int, ...], float] = {}
        for rank in range(min(n_best, 6 // groups)):
            for score, ids in sorted((pool[rank] for pool in pools if rank < len(pool)), reverse=True):
                by_rank.setdefault(tuple(ids), score)
        expected = sorted(list(by_rank.items())[:n_best], key=lambda one: -one[1])
        assert [tuple(one.ids) for one in found] == [ids for ids, _ in expected]
        assert [one.score for one in found] == pytest.approx([score for _, score in expected], abs=1e-4)
        for one in found:
            forced = table.teacher_forced(seed, [*one.ids, END])
            assert one.log_probability == pytest.approx(forced, abs=1e-4), "the diversity penalty is in no score"
        (plain,) = beam(table, table.memory([seed]), max_lengths=torch.tensor([6]), width=6, n_best=n_best)
        different += [one.ids for one in plain] != [one.ids for one in found]
    assert different or n_best == 1


@pytest.mark.parametrize("impossible", [0.0, 0.6])
def test_one_group_is_plain_beam_search(impossible: float) -> None:
    table = Table(40, 3, impossible)
    options = {"max_lengths": torch.tensor([9, 5, 2]), "width": 4, "n_best": 3, "length_penalty": 0.7}
    memory = table.memory([1, 2, 3])
    assert diverse_beam(table, memory, groups=1, diversity=3.0, **options) == beam(table, memory, **options)


def test_batched_equals_alone() -> None:
    table = Table(9, 5)
    limits = torch.tensor([9, 3, 6])
    options = {"groups": 2, "diversity": 0.8, "width": 4, "n_best": 4}
    together = diverse_beam(table, table.memory([1, 2, 3]), max_lengths=limits, **options)
    for number in range(3):
        memory = table.memory([number + 1])
        (alone,) = diverse_beam(table, memory, max_lengths=limits[[number]], **options)
        assert alone == together[number]


def test_what_the_limit_cuts_off_is_returned() -> None:
    table = Table(9, 5)
    table.table[:, END] = -torch.inf
    options = {"groups": 2, "diversity": 0.8, "width": 4, "n_best": 2}
    (found,) = diverse_beam(table, table.memory([1]), max_lengths=torch.tensor([4]), **options)
    assert not found[0].finished and len(found[0].ids) == 4


def test_groups_divide_the_beam() -> None:
    table = Table(9, 5)
    with pytest.raises(UserError, match="beam 5 cannot be divided into 2 groups"):
        diverse_beam(table, table.memory([1]), max_lengths=torch.tensor([4]), groups=2, diversity=1.0, width=5)
