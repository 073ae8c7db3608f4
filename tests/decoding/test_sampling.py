"""Samples follow their distribution, whatever else is in the batch."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding.greedy import greedy
from regard.decoding.rules import Forbid, NoLoops
from regard.decoding.sampling import distribution, draw, sample
from regard.errors import UserError
from regard.states import Hypothesis
from regard.types import END

from .table import Table


def plain_distribution(log_probs: list[float], temperature: float, top_k: int, top_p: float) -> dict[int, float]:
    weights = {token: math.exp(x / temperature) for token, x in enumerate(log_probs) if x > -math.inf}
    order = sorted(weights, key=lambda token: -weights[token])
    if top_k:
        order = order[:top_k]
    whole = sum(weights[token] for token in order)
    kept, mass = [], 0.0
    for token in order:
        kept.append(token)
        mass += weights[token] / whole
        if mass >= top_p:
            break
    whole = sum(weights[token] for token in kept)
    return {token: weights[token] / whole for token in kept}


CASES = [(1.0, 0, 1.0), (0.5, 0, 1.0), (2.0, 3, 1.0), (1.0, 0, 0.7), (1.5, 4, 0.8), (1.0, 1, 1.0), (1.0, 0, 1e-6)]


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), CASES)
def test_distribution(temperature: float, top_k: int, top_p: float) -> None:
    log_probs = (torch.randn(50, 9, generator=torch.Generator().manual_seed(0)) * 2).log_softmax(-1)
    log_probs[:, 2] = -torch.inf
    probs, tokens = distribution(log_probs, temperature, top_k, top_p)
    for row in range(50):
        ids = range(9) if tokens is None else tokens[row].tolist()
        found = {token: p for token, p in zip(ids, probs[row].tolist(), strict=True) if p > 0}
        assert found == pytest.approx(plain_distribution(log_probs[row].tolist(), temperature, top_k, top_p), abs=1e-5)


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), CASES)
def test_samples_are_as_frequent_as_they_should_be(temperature: float, top_k: int, top_p: float) -> None:
    table, count = Table(vocabulary=7, seed=4), 4000
    found = sample(
        table,
        table.memory([77] * count),
        max_lengths=torch.full((count,), 2),
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=range(count),
    )
    seen = Counter(tuple(h.ids) for h in found)
    wanted: dict[tuple[int, ...], float] = {}
    for first, p in plain_distribution(table.log_probs(77, []), temperature, top_k, top_p).items():
        if first == END:
            wanted[()] = p
            continue
        for second, q in plain_distribution(table.log_probs(77, [first]), temperature, top_k, top_p).items():
            both = (first,) if second == END else (first, second)
            wanted[both] = wanted.get(both, 0.0) + p * q
    assert set(seen) <= set(wanted)
    for ids, p in wanted.items():
        assert seen[ids] / count == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / count) + 1e-3)
    for h in found:
        tokens = [*h.ids, END] if h.finished else h.ids
        assert h.log_probability == pytest.approx(table.teacher_forced(77, tokens), abs=1e-4)


def test_a_batch_equals_its_sentences_alone() -> None:
    table, count = Table(vocabulary=20, seed=3), 20
    limits, allowed = torch.arange(count) + 2, torch.arange(count) % 3 + 1

    def run(chosen: list[int], seed: int | list[int]) -> list[Hypothesis]:
        rules = [Forbid(), NoLoops(allowed[chosen], beams=1)]
        return sample(
            table, table.memory(chosen), max_lengths=limits[chosen], seed=seed, rules=rules, top_p=0.95, temperature=2.0
        )

    everyone = list(range(count))
    together = run(everyone, 5)
    assert [run([i], 5)[0] for i in everyone] == together
    assert run(everyone[::-1], 5) == together[::-1]
    assert run(everyone, 6) != together
    own = run(everyone, [100 + i for i in everyone])
    assert [run([i], 100 + i)[0] for i in everyone] == own


def test_cold_is_greedy() -> None:
    table, keys, limits = Table(vocabulary=15, seed=9), list(range(30)), torch.full((30,), 12)
    wanted = greedy(table, table.memory(keys), max_lengths=limits)
    assert sample(table, table.memory(keys), max_lengths=limits, top_k=1) == wanted
    cold = sample(table, table.memory(keys), max_lengths=limits, temperature=0.01)
    assert sum(a == b for a, b in zip(cold, wanted, strict=True)) >= 25  # near ties may differ


@settings(max_examples=100, deadline=None)
@given(
    logits=st.lists(st.sampled_from([-math.inf, -1e4, -5.0, 0.0, 5.0, 1e4]), min_size=4, max_size=12),
    temperature=st.sampled_from([0.01, 0.2, 1.0, 100.0]),
    top_k=st.sampled_from([0, 1, 3, 100]),
    top_p=st.sampled_from([0.01, 0.9, 1.0]),
    number=st.sampled_from([0.0, 0.5, 1 - 2**-24]),
)
def test_extreme_logits(logits: list[float], temperature: float, top_k: int, top_p: float, number: float) -> None:
    log_probs = torch.tensor([logits]).log_softmax(-1)
    probs, tokens = distribution(log_probs, temperature, top_k, top_p)
    assert probs.isfinite().all()
    assert probs.sum() == pytest.approx(1.0, abs=1e-5)
    place = draw(probs, torch.tensor([number]))
    assert probs[0, place] > 0
    if max(logits) > -math.inf:
        token = int(place) if tokens is None else int(tokens[0, place])
        assert logits[token] > -math.inf


@pytest.mark.parametrize("temperature", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("scale", [1e4, -1e4, -math.inf])
def test_extreme_models(temperature: float, scale: float) -> None:
    table = Table(vocabulary=6, seed=1)
    table.table = torch.full_like(table.table, scale) if math.isinf(scale) else table.table.sign() * scale
    found = sample(table, table.memory([1, 2]), max_lengths=torch.tensor([5, 9]), temperature=temperature)
    if math.isinf(scale):
        assert found == [Hypothesis([], -math.inf, -math.inf, finished=False)] * 2
    else:
        assert all(math.isfinite(h.score) for h in found)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"temperature": 101.0},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
    ],
)
def test_refused(wrong: dict[str, float]) -> None:
    table = Table()
    with pytest.raises(UserError):
        sample(table, table.memory([1]), max_lengths=torch.tensor([4]), **wrong)  # type: ignore[arg-type]


def test_no_sentences() -> None:
    table = Table()
    assert sample(table, table.memory([]), max_lengths=torch.tensor([], dtype=torch.long)) == []
