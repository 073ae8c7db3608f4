"""Beam search against brute force, against a plain Python beam without early stopping, and batched against single."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding.beam import beam, penalty
from regard.decoding.rules import Forbid, MinLength, NoLoops
from regard.errors import UserError
from regard.states import Hypothesis
from regard.types import END

from .table import Table

Banned = Callable[[list[int]], set[int]]


def nothing(history: list[int]) -> set[int]:
    return set()


def lengths(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers)


def brute_force(
    table: Table, key: int, limit: int, alpha: float, banned: Banned = nothing, prefix: tuple[int, ...] = ()
) -> list[tuple[float, list[int]]]:
    """Every possible finished output with its score, best first."""
    others = [token for token in range(table.vocabulary) if token != END]
    found = []
    for size in range(limit - len(prefix)):
        for body in itertools.product(others, repeat=size):
            whole = [*prefix, *body, END]
            if any(whole[i] in banned(whole[:i]) for i in range(len(prefix), len(whole))):
                continue
            total = table.teacher_forced(key, whole, given=len(prefix))
            if total > -math.inf:
                found.append((total / ((5 + size + 1) / 6) ** alpha, whole[:-1]))
    return sorted(found, reverse=True)


def plain_beam(
    table: Table, key: int, limit: int, width: int, n_best: int, alpha: float, banned: Banned = nothing
) -> list[tuple[float, list[int], bool]]:
    """Goes on to the limit, whatever it has found."""
    rows: list[tuple[float, list[int]]] = [(0.0, [])]
    pool: list[tuple[float, list[int], bool]] = []
    for length in range(1, limit + 1):
        onwards = []
        for total, tokens in rows:
            forbidden = banned(tokens)
            for token, gain in enumerate(table.log_probs(key, tokens)):
                if gain == -math.inf or token in forbidden:
                    continue
                if token == END:
                    pool.append(((total + gain) / penalty(length, alpha), tokens, True))
                else:
                    onwards.append((total + gain, [*tokens, token]))
        rows = sorted(onwards, reverse=True)[:width]
    if not pool:
        pool = [(total / penalty(limit, alpha), tokens, False) for total, tokens in rows]
    return sorted(pool, reverse=True)[:n_best]


def assert_same(found: list[Hypothesis], wanted: list[tuple[float, list[int]]]) -> None:
    assert [h.ids for h in found] == [ids for _, ids in wanted]
    assert [h.score for h in found] == pytest.approx([score for score, _ in wanted], abs=1e-4)


def test_penalty_by_hand() -> None:
    assert penalty(1, 0.6) == 1.0
    assert penalty(7, 1.0) == 2.0
    assert penalty(19, 0.5) == 2.0


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("impossible", [0.0, 0.4])
def test_a_beam_as_wide_as_the_space_is_brute_force(alpha: float, impossible: float) -> None:
    table, keys, limits = Table(vocabulary=5, seed=3, impossible=impossible), [5, 80, 11, 7000], [5, 4, 1, 3]
    found = beam(table, table.memory(keys), max_lengths=lengths(*limits), width=4**4, n_best=10, length_penalty=alpha)
    for hypotheses, key, limit in zip(found, keys, limits, strict=True):
        wanted = brute_force(table, key, limit, alpha)[:10]
        if wanted:
            assert_same(hypotheses, wanted)
            assert all(h.finished for h in hypotheses)
        else:
            assert not any(h.finished for h in hypotheses)


def test_brute_force_with_rules() -> None:
    table, keys, limits = Table(vocabulary=6, seed=8, end=-2), [3, 4], [5, 6]

    rules = [Forbid(), MinLength(2), NoLoops(lengths(2, 2), beams=64, longest=1)]
    found = beam(
        table, table.memory(keys), max_lengths=lengths(*limits), width=64, n_best=5, length_penalty=1.0, rules=rules
    )

    def single(history: list[int]) -> set[int]:
        loops = {history[-1]} if len(history) >= 2 and history[-1] == history[-2] else set()
        return {0, 1, 2, *loops, *({END} if len(history) < 2 else ())}

    for hypotheses, key, limit in zip(found, keys, limits, strict=True):
        assert_same(hypotheses, brute_force(table, key, limit, 1.0, single)[:5])


def test_brute_force_after_a_prefix() -> None:
    table, keys = Table(vocabulary=5, seed=1, end=-1), [9, 10]
    found = beam(
        table,
        table.memory(keys),
        max_lengths=lengths(6, 5),
        width=64,
        n_best=3,
        length_penalty=0.6,
        prefix=torch.tensor([[4, 1], [0, 4]]),
    )
    assert_same(found[0], brute_force(table, 9, 6, 0.6, prefix=(4, 1))[:3])
    assert_same(found[1], brute_force(table, 10, 5, 0.6, prefix=(0, 4))[:3])


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    width=st.integers(1, 6),
    n_best=st.integers(1, 5),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 3.0]),
    end=st.sampled_from([-4.0, 0.0, 2.0]),
    impossible=st.sampled_from([0.0, 0.5]),
    limits=st.lists(st.integers(1, 12), min_size=1, max_size=7),
)
def test_stopping_early_and_leaving_lose_nothing(
    seed: int, width: int, n_best: int, alpha: float, end: float, impossible: float, limits: list[int]
) -> None:
    table = Table(seed=seed, end=end, impossible=impossible)
    keys = [seed + 17 * i for i in range(len(limits))]
    found = beam(
        table,
        table.memory(keys),
        max_lengths=lengths(*limits),
        width=width,
        n_best=n_best,
        length_penalty=alpha,
        rules=[Forbid()],
    )
    for hypotheses, key, limit in zip(found, keys, limits, strict=True):
        wanted = plain_beam(table, key, limit, max(width, n_best), n_best, alpha, lambda _: {0, 1, 2})
        if not wanted:
            assert hypotheses == [Hypothesis([], -math.inf, -math.inf, finished=False)]
            continue
        assert [h.score for h in hypotheses] == pytest.approx([score for score, *_ in wanted], abs=1e-4)
        for h in hypotheses:
            tokens = [*h.ids, END] if h.finished else h.ids
            assert h.finished == wanted[0][2]
            assert len(tokens) <= limit
            assert h.log_probability == pytest.approx(table.teacher_forced(key, tokens), abs=1e-4)
            assert h.score == pytest.approx(h.log_probability / penalty(len(tokens), alpha), abs=1e-5)


@pytest.mark.parametrize(("end", "spread"), [(-3.0, 3.0), (0.0, 3.0), (0.0, 0.0)])
def test_a_batch_equals_its_sentences_alone(end: float, spread: float) -> None:
    table, count = Table(vocabulary=30, seed=2, end=end, spread=spread), 16  # without spread everything is a tie
    keys, limits = [101 * i for i in range(count)], [3 + (7 * i) % 17 for i in range(count)]
    allowed = torch.tensor([1 + i % 3 for i in range(count)])

    def run(chosen: list[int]) -> list[list[Hypothesis]]:
        return beam(
            table,
            table.memory([keys[i] for i in chosen]),
            max_lengths=lengths(*(limits[i] for i in chosen)),
            width=4,
            n_best=3,
            rules=[Forbid(), NoLoops(allowed[chosen], beams=4)],
        )

    together = run(list(range(count)))
    for i in range(count):
        assert run([i]) == [together[i]]
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(0)).tolist()
    assert run(shuffled) == [together[i] for i in shuffled]


def test_sentences_that_are_done_leave_the_batch() -> None:
    table = Table(vocabulary=30, seed=2, spread=3.0)
    beam(table, table.memory(list(range(40))), max_lengths=lengths(*[60] * 40), width=4)
    assert table.beams_seen[0] == 160
    assert table.beams_seen[-1] <= 40
    assert len(table.beams_seen) < 60
    assert table.beams_seen == sorted(table.beams_seen, reverse=True)


def test_what_the_limit_cuts_is_returned_only_when_nothing_finished() -> None:
    table = Table(vocabulary=6, seed=5)
    table.table[:, END] = -torch.inf
    found = beam(table, table.memory([1]), max_lengths=lengths(4), width=3, n_best=2, length_penalty=0.6)
    assert [(len(h.ids), h.finished) for h in found[0]] == [(4, False), (4, False)]
    wanted = plain_beam(table, 1, 4, 3, 2, 0.6)
    assert_same(found[0], [(score, ids) for score, ids, _ in wanted])
    table.table[:, END] = -30.0  # finishing is absurd, but it is finishing
    found = beam(table, table.memory([1]), max_lengths=lengths(4), width=3, n_best=2)
    assert all(h.finished for h in found[0])


def test_nothing_possible_is_an_answer_without_nan() -> None:
    table = Table(vocabulary=6, seed=5)
    table.table[:] = -torch.inf
    found = beam(table, table.memory([1, 2]), max_lengths=lengths(4, 9), width=3, n_best=2)
    assert found == [[Hypothesis([], -math.inf, -math.inf, finished=False)]] * 2
    found = beam(
        table, table.memory([1]), max_lengths=lengths(4), width=3, rules=[Forbid(range(6))], prefix=torch.tensor([[5]])
    )
    assert found == [[Hypothesis([5], -math.inf, -math.inf, finished=False)]]


def test_hypotheses_are_distinct_and_sorted() -> None:
    table = Table(vocabulary=9, seed=6)
    for hypotheses in beam(table, table.memory([1, 2, 3]), max_lengths=lengths(8, 8, 8), width=2, n_best=7):
        assert len({tuple(h.ids) for h in hypotheses}) == 7
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)


def test_no_sentences() -> None:
    table = Table()
    assert beam(table, table.memory([]), max_lengths=torch.tensor([], dtype=torch.long)) == []


def test_half_precision_logits_are_summed_in_float32() -> None:
    table = Table(vocabulary=8, seed=4, end=-3)
    table.table = table.table.bfloat16().float()
    whole = beam(table, table.memory([1, 2]), max_lengths=lengths(30, 30))

    class Half(Table):
        def step(self, ids, state):  # type: ignore[no-untyped-def]
            logits, state = super().step(ids, state)
            return logits.bfloat16(), state

    half = Half()
    half.table, half.vocabulary = table.table, table.vocabulary
    assert beam(half, half.memory([1, 2]), max_lengths=lengths(30, 30)) == whole


@pytest.mark.parametrize(
    "wrong",
    [
        {"length_penalty": -0.1},
        {"length_penalty": float("nan")},
        {"length_penalty": 1e3},
        {"width": 0},
        {"n_best": 0},
    ],
)
def test_refused(wrong: dict[str, float]) -> None:
    table = Table()
    with pytest.raises(UserError):
        beam(table, table.memory([1]), max_lengths=lengths(4), **wrong)  # type: ignore[arg-type]
