"""Rules against their definitions written out in plain Python."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding.rules import Forbid, ForbidFirst, MinLength, NoLoops, loops_allowed
from regard.types import END

few_tokens = st.lists(st.integers(0, 2), max_size=24)


def most_copies_in_a_row(tokens: list[int], longest: int) -> int:
    most = 1
    for n in range(1, longest + 1):
        for start in range(len(tokens)):
            copies = 1
            while tokens[start : start + n] == tokens[start + copies * n : start + (copies + 1) * n]:
                if len(tokens) < start + (copies + 1) * n:
                    break
                copies += 1
            most = max(most, copies)
    return most


def ends_in_too_many_copies(tokens: list[int], allowed: int, longest: int) -> bool:
    for n in range(1, longest + 1):
        tail = tokens[-n * (allowed + 1) :]
        if len(tail) == n * (allowed + 1) and tail == tail[:n] * (allowed + 1):
            return True
    return False


@settings(max_examples=150, deadline=None)
@given(
    size=st.integers(0, 30),
    period=st.integers(1, 5),
    seed=st.integers(0, 2**20),
    longest=st.integers(1, 4),
    allowed=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    beams=st.integers(1, 3),
)
def test_no_loops(size: int, period: int, seed: int, longest: int, allowed: list[int], beams: int) -> None:
    random = torch.Generator().manual_seed(seed)
    count = len(allowed) * beams
    block = torch.randint(0, 3, (count, period), generator=random)  # histories that end in loops of some period
    tail = block.repeat(1, size // period + 1)[:, :size]
    noise = torch.randint(0, 3, (count, size), generator=random)
    cut = torch.randint(0, size + 1, (count, 1), generator=random)
    history = torch.where(torch.arange(size) < cut, noise, tail)
    scores = torch.zeros(count, 4)
    NoLoops(torch.tensor(allowed), beams, longest)(history, scores)
    for row in range(count):
        for token in range(4):
            wanted = ends_in_too_many_copies([*history[row].tolist(), token], allowed[row // beams], longest)
            assert scores[row, token] == (-torch.inf if wanted else 0)


def test_no_loops_keeps_minus_infinity_and_narrows() -> None:
    allowed, history = torch.tensor([1, 2, 5]), torch.tensor([[7, 7], [8, 8], [9, 9]])
    scores = torch.full((3, 10), -torch.inf)
    rule = NoLoops(allowed, beams=1)
    rule(history, scores)
    assert (scores == -torch.inf).all()
    some = torch.tensor([2, 1])
    scores = torch.zeros(2, 10)
    rule.narrow(some)(history[some], scores)
    assert scores[0].eq(0).all()
    assert (scores[1] == -torch.inf).nonzero().flatten().tolist() == [8]


@settings(max_examples=100, deadline=None)
@given(sentences=st.lists(few_tokens, min_size=1, max_size=4), longest=st.integers(1, 4), at_least=st.integers(1, 3))
def test_loops_allowed(sentences: list[list[int]], longest: int, at_least: int) -> None:
    width = max(1, *map(len, sentences)) + 2
    source, mask = (
        torch.zeros(len(sentences), width, dtype=torch.long),
        torch.zeros(len(sentences), width, dtype=torch.bool),
    )
    for row, tokens in enumerate(sentences):
        source[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.long)
        mask[row, : len(tokens)] = True
    wanted = [max(at_least, most_copies_in_a_row(tokens, longest)) for tokens in sentences]
    assert loops_allowed(source, mask, longest, at_least).tolist() == wanted


def test_a_translation_may_repeat_as_often_as_its_source() -> None:
    source = torch.tensor([[9, 9, 9, 9, 9, END], [4, 5, 4, 5, 6, END]])
    allowed = loops_allowed(source, torch.ones_like(source, dtype=torch.bool))
    assert allowed.tolist() == [5, 3]
    scores = torch.zeros(2, 10)
    NoLoops(allowed, beams=1)(torch.tensor([[7, 7, 7], [7, 7, 7]]), scores)
    assert scores[0].eq(0).all()
    assert (scores[1] == -torch.inf).nonzero().flatten().tolist() == [7]


def test_forbid_and_min_length() -> None:
    scores = torch.zeros(2, 6)
    Forbid()(torch.zeros(2, 0, dtype=torch.long), scores)
    assert scores.tolist() == [[-torch.inf] * 3 + [0.0] * 3] * 2
    rule = MinLength(2).narrow(torch.tensor([0]))
    for length, wanted in [(0, -torch.inf), (1, -torch.inf), (2, 0.0)]:
        scores = torch.zeros(1, 6)
        rule(torch.zeros(1, length, dtype=torch.long), scores)
        assert scores[0, END] == wanted
        assert scores.sum() == wanted


def test_forbid_first_concerns_the_first_token_alone() -> None:
    """The one after a forced prefix; what is forbidden already stays so."""
    for written in range(4):
        scores = torch.zeros(2, 6)
        scores[1, 3] = -torch.inf
        ForbidFirst((3, 5), forced=2)(torch.zeros(2, 8, dtype=torch.long), scores, torch.tensor(written))
        wanted = torch.zeros(2, 6)
        wanted[1, 3] = -torch.inf
        if written == 2:
            wanted[:, [3, 5]] = -torch.inf
        assert torch.equal(scores, wanted)
