"""A stream yields what sampling draws, token by token, and continues past the end of a window."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from regard.decoding.rules import Forbid, MinLength, NoLoops
from regard.decoding.sampling import sample
from regard.decoding.stream import Drawn, stream
from regard.errors import UserError
from regard.types import END, Memory, State

from .table import Table

KEY = 77


class Alone(Table):
    """The table for one sentence, whatever there is to look at; counts how often it was begun, and its steps."""

    begun = 0

    def start(self, memory: Memory, beams: int, capacity: int) -> State:
        self.begun += 1
        return super().start(self.memory([KEY] * len(memory)), beams, capacity)


class Carrying:
    """A recurrent decoder: no KV cache. It keeps what it was fed, for the test to check."""

    def __init__(self) -> None:
        self.fed: list[list[int]] = []
        self.begun = 0

    def start(self, memory: Memory, beams: int, capacity: int) -> State:
        self.begun += 1
        return State(beams, torch.tensor(0))

    def step(self, ids: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        self.fed.append(ids[0].tolist())
        state.position = state.position + ids.shape[1]
        return torch.zeros(1, ids.shape[1], 9), state


@pytest.mark.parametrize("prefix", [[], [5], [4, 6, 5]])
@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.01, 0, 1.0), (100.0, 0, 1.0), (2.0, 3, 1.0), (1.5, 0, 0.8), (1.0, 4, 0.5)],
)
def test_it_is_the_sample_of_the_same_seed(prefix, temperature, top_k, top_p):
    table = Alone(vocabulary=15, seed=4)
    how = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    ends = 0
    for seed in range(20):
        given = torch.tensor([prefix]) if prefix else None
        (wanted,) = sample(
            table, table.memory([KEY]), max_lengths=torch.tensor([20]), seed=seed, rules=[Forbid()], prefix=given, **how
        )
        drawn = list(
            stream(table, window=20, prompt=prefix, length=20 - len(prefix), seed=seed, rules=[Forbid()], **how)
        )
        ended = drawn[-1].id == END
        assert [*prefix, *(d.id for d in drawn if d.id != END)] == wanted.ids
        assert ended == wanted.finished
        assert sum(d.log_probability for d in drawn) == pytest.approx(wanted.log_probability, abs=1e-4)
        ends += ended
    assert ends  # some came to their end by themselves


@pytest.mark.parametrize("window", [2, 3, 7, 8])
@pytest.mark.parametrize("given", [0, 1, 6, 30])
def test_a_full_window_is_begun_anew_with_its_last_half(window, given):
    table = Alone(vocabulary=15, seed=1, end=-20.0)
    prompt = [4 + i % 11 for i in range(given)]
    drawn = list(stream(table, window=window, prompt=prompt, length=40, seed=3))
    assert len(drawn) == 40
    history, seen = list(prompt), list(prompt) if given < window else prompt[-(window // 2) :]
    begun = 1
    for token, log_probability in drawn:
        if len(seen) + 1 > window:  # BEGIN needs a place, too
            seen, begun = history[-(window // 2) :], begun + 1
        assert log_probability == pytest.approx(table.log_probs(KEY, seen)[token], abs=1e-5)
        history.append(token)
        seen = [*seen, token]
    assert table.begun == begun > 4


def test_what_carries_its_state_never_begins_anew():
    decoder = Carrying()
    drawn = list(stream(decoder, window=4, prompt=[4, 5, 6, 7, 8, 4], length=30, seed=1, rules=[Forbid((0, 1, 2, 3))]))
    assert decoder.begun == 1 and len(drawn) == 30
    assert decoder.fed[0] == [2, 4, 5, 6, 7, 8, 4]
    assert decoder.fed[1:] == [[d.id] for d in drawn[:-1]]


def test_a_token_is_handed_out_before_the_next_is_made():
    decoder = Carrying()
    tokens = stream(decoder, window=4, seed=1, rules=[Forbid((0, 1, 2, 3))])
    for count in (1, 2, 3):
        next(tokens)
        assert len(decoder.fed) == count
    assert len(list(islice(tokens, 500))) == 500  # no length: for ever
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_rules_see_all_that_was_written():
    table = Alone(vocabulary=6, seed=2, end=4.0)
    drawn = list(stream(table, window=4, prompt=[4], length=25, seed=1, rules=[Forbid(), MinLength(20)]))
    assert len(drawn) + 1 >= 20 and END not in [d.id for d in drawn[:19]]
    quiet = list(
        stream(table, window=9, length=25, seed=1, rules=[Forbid((0, 1, 2, 3)), NoLoops(torch.tensor([1]), 1)])
    )
    ids = [d.id for d in quiet]
    assert all(a != b for a, b in zip(ids, ids[1:]))


def test_where_nothing_is_allowed_it_ends():
    table = Alone(vocabulary=6)
    assert list(stream(table, window=5, length=9, rules=[Forbid(range(6))])) == []
    table.table.fill_(-torch.inf)
    assert list(stream(table, window=5, length=9)) == []


def test_the_likeliest_and_the_seed():
    table = Alone(vocabulary=15, seed=5, end=-20.0)
    how = {"window": 30, "length": 12}
    assert list(stream(table, top_k=1, seed=1, **how)) == list(stream(table, top_k=1, seed=2, **how))
    one, again, other = (list(stream(table, seed=seed, **how)) for seed in (1, 1, 2))
    assert one == again != other and isinstance(one[0], Drawn)


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"temperature": 101.0}, {"top_k": -1}, {"top_p": 0.0}])
def test_refused(wrong):
    with pytest.raises(UserError):
        next(stream(Alone(), window=4, **wrong))
    with pytest.raises(ValueError, match="window"):
        next(stream(Alone(), window=1))
