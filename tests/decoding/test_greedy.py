"""Greedy decoding against an argmax in plain Python."""

from __future__ import annotations

import math

import pytest
import torch

from regard.decoding.greedy import greedy
from regard.decoding.rules import Forbid, MinLength, NoLoops
from regard.states import Hypothesis
from regard.types import END

from .table import Table


def plain_greedy(table: Table, key: int, limit: int, forbidden: set[int], prefix: list[int]) -> tuple[list[int], bool]:
    tokens = list(prefix)
    while len(tokens) < limit:
        scores = table.log_probs(key, tokens)
        best = max((score, token) for token, score in enumerate(scores) if token not in forbidden)[1]
        if best == END:
            return tokens, True
        tokens.append(best)
    return tokens, False


@pytest.mark.parametrize("prefix", [[], [4], [5, 5, 4]])
@pytest.mark.parametrize("end", [-0.5, 1.0])
def test_the_likeliest_token_every_time(prefix: list[int], end: float) -> None:
    table, keys = Table(vocabulary=12, seed=1, end=end), list(range(0, 900, 30))
    limits = [4 + i % 13 for i in range(len(keys))]
    found = greedy(
        table,
        table.memory(keys),
        max_lengths=torch.tensor(limits),
        rules=[Forbid()],
        prefix=torch.tensor([prefix] * len(keys)) if prefix else None,
    )
    assert {h.finished for h in found} == {True, False}
    for hypothesis, key, limit in zip(found, keys, limits, strict=True):
        ids, finished = plain_greedy(table, key, limit, {0, 1, 2}, prefix)
        assert (hypothesis.ids, hypothesis.finished) == (ids, finished)
        chosen = [*ids, END] if finished else ids
        assert hypothesis.log_probability == pytest.approx(
            table.teacher_forced(key, chosen, given=len(prefix)), abs=1e-4
        )
        assert hypothesis.score == hypothesis.log_probability
    assert table.beams_seen[-1] < len(keys)


def test_a_batch_equals_its_sentences_alone() -> None:
    table, keys = Table(vocabulary=20, seed=3), list(range(20))
    limits, allowed = torch.arange(20) + 2, torch.arange(20) % 3 + 1

    def run(chosen: list[int]) -> list[Hypothesis]:
        memory = table.memory([keys[i] for i in chosen])
        return greedy(table, memory, max_lengths=limits[chosen], rules=[NoLoops(allowed[chosen], beams=1)])

    together = run(list(range(20)))
    assert [run([i])[0] for i in range(20)] == together


def test_limits() -> None:
    table = Table(seed=2)
    table.table[:, END] = 50.0
    assert [h.ids for h in greedy(table, table.memory([1, 2]), max_lengths=torch.tensor([5, 9]))] == [[], []]
    found = greedy(table, table.memory([1, 2]), max_lengths=torch.tensor([5, 9]), rules=[MinLength(3)])
    assert [(len(h.ids), h.finished) for h in found] == [(3, True), (3, True)]
    found = greedy(table, table.memory([1]), max_lengths=torch.tensor([0]), rules=[MinLength(1)])
    assert [(len(h.ids), h.finished) for h in found] == [(1, False)]  # one token is always looked for
    assert greedy(table, table.memory([]), max_lengths=torch.tensor([], dtype=torch.long)) == []


def test_where_nothing_is_allowed_the_sentence_ends() -> None:
    table = Table(vocabulary=6)
    found = greedy(table, table.memory([1, 2]), max_lengths=torch.tensor([5, 9]), rules=[Forbid(range(6))])
    assert found == [Hypothesis([], -math.inf, -math.inf, finished=False)] * 2
    table.table[:] = -torch.inf
    assert greedy(table, table.memory([1, 2]), max_lengths=torch.tensor([5, 9])) == found
