"""Constrained beam search against brute force, against the free search, and batched against single."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding.beam import beam, penalty
from regard.decoding.constrained_beam import constrained_beam
from regard.decoding.constraint_tensors import WordEdges
from regard.decoding.constraints import Constraint, Start, TokenForm, tokens_needed
from regard.types import END

from .table import Table

VOCABULARY = 7
CONTINUES = (6,)
"""Tokens that go on with a word; all others begin one. After token 5 no word is open, and a sentence begins."""
EDGES = WordEdges.of(
    [token not in CONTINUES for token in range(VOCABULARY)],
    [token == 5 for token in range(VOCABULARY)],
    [token == 5 for token in range(VOCABULARY)],
)


def may_begin(form: TokenForm, before: list[int]) -> bool:
    if form.start == Start.ANYWHERE or not before:
        return True
    return form.start in (Start.AT_WORD, Start.AT_SENTENCE) and before[-1] == 5


def times_in(term: Constraint, tokens: list[int]) -> int:
    """Counted the plain way: where a form ends, with the token after it."""
    ends = set()
    for form in term.forms:
        size = len(form.tokens)
        for end in range(size, len(tokens) + 1):
            there = tuple(tokens[end - size : end]) == form.tokens and may_begin(form, tokens[: end - size])
            closed = not form.whole or end == len(tokens) or tokens[end] not in CONTINUES
            if there and closed:
                ends.add(end)
    return len(ends)


def brute_force(
    table: Table, key: int, limit: int, alpha: float, terms: list[Constraint]
) -> list[tuple[float, float, list[int]]]:
    """(objective, score, output) of every finished output with the obligatory terms, best first."""
    others = [token for token in range(VOCABULARY) if token != END]
    found = []
    for size in range(limit):
        for body in map(list, itertools.product(others, repeat=size)):
            there = [times_in(term, body) >= term.times for term in terms]
            if not all(have or term.bonus < math.inf for have, term in zip(there, terms)):
                continue
            total = table.teacher_forced(key, [*body, END])
            gained = sum(term.bonus for have, term in zip(there, terms) if have and term.bonus < math.inf)
            if total > -math.inf:
                found.append(((total + gained) / penalty(size + 1, alpha), total / penalty(size + 1, alpha), body))
    return sorted(found, reverse=True)


forms = st.builds(
    TokenForm,
    st.lists(st.sampled_from([0, 1, 2, 4, 5, 6]), min_size=1, max_size=2).map(tuple),
    st.sampled_from(Start),
    st.booleans(),
)
terms = st.lists(
    st.builds(
        Constraint,
        st.lists(forms, min_size=1, max_size=2, unique=True).map(tuple),
        st.just(1),
        st.sampled_from([math.inf, 1.5]),
    ),
    min_size=1,
    max_size=2,
).filter(lambda terms: tokens_needed(terms) <= 3)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 99), terms, st.sampled_from([0.0, 1.0]))
def test_the_widest_beam_finds_what_brute_force_finds(seed: int, terms: list[Constraint], alpha: float) -> None:
    table = Table(VOCABULARY, seed)
    limit = 5
    expected = brute_force(table, 3, limit, alpha, terms)
    (found,) = constrained_beam(
        table, table.memory([3]), [terms], EDGES, max_lengths=torch.tensor([limit]), width=900, length_penalty=alpha
    )
    if not expected:
        assert not found[0].finished
        return
    assert found[0].finished
    assert found[0].ids == expected[0][2]
    assert found[0].score == pytest.approx(expected[0][1], abs=1e-4)
    assert found[0].log_probability == pytest.approx(table.teacher_forced(3, [*found[0].ids, END]), abs=1e-4)


def test_brute_force_with_terms_of_several_tokens_and_twice() -> None:
    cases = [
        [Constraint((TokenForm((1, 6, 2)),))],
        [Constraint((TokenForm((4,)),), times=2)],
        [Constraint((TokenForm((1, 1, 2)),))],
        [Constraint((TokenForm((1, 2)), TokenForm((2, 1)))), Constraint((TokenForm((4,), whole=False),), bonus=0.7)],
    ]
    for seed, terms in enumerate(cases):
        table = Table(VOCABULARY, seed)
        expected = brute_force(table, 1, 5, 1.0, terms)
        limit = torch.tensor([5])
        (found,) = constrained_beam(table, table.memory([1]), [terms], EDGES, max_lengths=limit, width=1300, n_best=3)
        assert [one.ids for one in found] == [ids for _, _, ids in expected[:3]]


def test_a_narrow_beam_never_loses_an_obligatory_term() -> None:
    random = torch.Generator().manual_seed(0)

    def draw(most: int) -> int:
        return int(torch.randint(most, (1,), generator=random))

    table = Table(VOCABULARY, 5)
    sentences = [
        [
            Constraint((TokenForm(tuple([0, 1, 2, 4][draw(4)] for _ in range(1 + draw(4)))),), 1 + draw(2))
            for _ in range(1 + draw(3))
        ]
        for _ in range(60)
    ]
    keys = list(range(60))
    limits = torch.full((60,), 12)
    for width in (1, 4):
        found = constrained_beam(table, table.memory(keys), sentences, EDGES, max_lengths=limits, width=width)
        for terms, (best, *_) in zip(sentences, found):
            assert best.finished
            assert all(times_in(term, best.ids) >= term.times for term in terms)


def test_batched_equals_alone() -> None:
    table = Table(VOCABULARY, 8)
    sentences = [
        [Constraint((TokenForm((1, 2, 4)), TokenForm((2, 2))))],
        [Constraint((TokenForm((5,)),), times=2), Constraint((TokenForm((4, 6)),), bonus=2.0)],
        [],
    ]
    limits = torch.tensor([9, 4, 6])
    together = constrained_beam(table, table.memory([1, 2, 3]), sentences, EDGES, max_lengths=limits, width=5)
    for number, terms in enumerate(sentences):
        memory = table.memory([number + 1])
        alone = constrained_beam(table, memory, [terms], EDGES, max_lengths=limits[[number]], width=5)
        assert alone[0] == together[number]


def test_without_terms_it_is_the_free_search() -> None:
    table = Table(VOCABULARY, 2)
    limits = torch.tensor([8, 8])
    free = beam(table, table.memory([1, 2]), max_lengths=limits, width=4, n_best=2)
    found = constrained_beam(table, table.memory([1, 2]), [[], []], EDGES, max_lengths=limits, width=4, n_best=2)
    assert [[one.ids for one in row] for row in found] == [[one.ids for one in row] for row in free]
