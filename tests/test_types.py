"""A decoder's state: beams that fork, copies and larger caches, against a decoder that reads the whole past again."""

from __future__ import annotations

import pytest
import torch

from regard.assemble import build_model
from regard.states import concatenate, fork, grow, narrow, select_
from regard.types import Memory, State

SENTENCES, BEAMS = 2, 3


@pytest.fixture
def decoder():
    torch.manual_seed(0)
    with torch.inference_mode():
        yield build_model({"preset": "tiny"}, 20).eval().decoder


@pytest.fixture
def memory(decoder):
    width = decoder.embedding.table.embedding_dim
    return Memory(torch.randn(SENTENCES, 4, width), torch.tensor([[True] * 4, [True] * 3 + [False]]))


def anew(decoder, memory: Memory, pasts: torch.Tensor) -> torch.Tensor:
    """The last logits of beams whose whole past is read at once."""
    each = torch.arange(len(memory)).repeat_interleave(len(pasts) // len(memory))
    tiled = Memory(memory.states[each], memory.mask[each])
    return decoder.step(pasts, decoder.start(tiled, 1, 0))[0][:, -1]


def advance(decoder, state: State, ids: torch.Tensor) -> tuple[torch.Tensor, State]:
    logits, state = decoder.step(ids[:, None], state)
    return logits[:, -1], state


def test_beams_fork_and_end_and_each_keeps_its_own_past(decoder, memory):
    state = decoder.start(memory, BEAMS, 4)
    pasts = torch.zeros(SENTENCES * BEAMS, 0, dtype=torch.long)
    kept = [id(entries) for entries in state.cache]
    for turn in range(8):
        if turn == 4:
            before = [entries.clone() for entries in state.cache]
            state = grow(state, 8)
            for entries, short in zip(state.cache, before):
                assert entries.shape[1] == 8 and torch.equal(entries[:, :4], short) and not entries[:, 4:].any()
            assert state.origin.shape == (SENTENCES * BEAMS, 8)
        ids = torch.randint(4, 20, (SENTENCES * BEAMS,))
        pasts = torch.cat([pasts, ids[:, None]], 1)
        logits, state = advance(decoder, state, ids)
        torch.testing.assert_close(logits, anew(decoder, memory, pasts), atol=1e-4, rtol=1e-4)
        inside = torch.randint(0, BEAMS, (SENTENCES, BEAMS)) + torch.arange(SENTENCES)[:, None] * BEAMS
        before = [entries.clone() for entries in state.cache]
        assert select_(state, inside.flatten()) is state
        assert all(torch.equal(entries, old) for entries, old in zip(state.cache, before)), "select_ moves no entry"
        if turn == 3:
            assert [id(entries) for entries in state.cache] == kept
        pasts = pasts[inside.flatten()]


def test_a_fork_lives_its_own_life(decoder, memory):
    state = decoder.start(memory, BEAMS, 5)
    first = torch.arange(4, 4 + SENTENCES * BEAMS)
    _, state = advance(decoder, state, first)
    other = fork(state)
    assert other.memory is state.memory
    swapped = torch.tensor([2, 1, 0, 4, 4, 3])
    select_(other, swapped)
    for _ in range(2):
        advance(decoder, fork(other), torch.full((SENTENCES * BEAMS,), 19))
    logits, _ = advance(decoder, state, first.flip(0))
    torch.testing.assert_close(
        logits, anew(decoder, memory, torch.stack([first, first.flip(0)], 1)), atol=1e-4, rtol=1e-4
    )
    logits, _ = advance(decoder, other, first)
    torch.testing.assert_close(
        logits, anew(decoder, memory, torch.stack([first[swapped], first], 1)), atol=1e-4, rtol=1e-4
    )


def test_some_of_the_sentences_go_on_alone(decoder, memory):
    state = decoder.start(memory, BEAMS, 5)
    first = torch.arange(4, 4 + SENTENCES * BEAMS)
    _, state = advance(decoder, state, first)
    swapped = torch.tensor([0, 1, 2, 5, 3, 3])
    state = narrow(select_(state, swapped), torch.tensor([1]))
    logits, _ = advance(decoder, state, first[3:])
    pasts = torch.stack([first[swapped], first], 1)[3:]
    one = Memory(memory.states[1:], memory.mask[1:])
    torch.testing.assert_close(logits, anew(decoder, one, pasts), atol=1e-4, rtol=1e-4)


def test_what_a_recurrent_decoder_carries_is_moved_and_copied():
    carry = {"cell": torch.arange(6.0)[:, None]}
    state = State(beams=BEAMS, position=torch.tensor(1), carry=carry)
    other = select_(fork(state), torch.tensor([1, 1, 0, 5, 3, 4]))
    assert other.carry["cell"][:, 0].tolist() == [1, 1, 0, 5, 3, 4]
    assert carry["cell"][:, 0].tolist() == [0, 1, 2, 3, 4, 5] and other.origin is None and grow(state, 9).origin is None


def test_memories_are_concatenated_in_order_and_padded():
    one = Memory(torch.ones(2, 3, 4), torch.ones(2, 3, dtype=torch.bool), [(torch.ones(2, 5),)])
    other = Memory(torch.full((1, 5, 4), 2.0), torch.ones(1, 5, dtype=torch.bool), [(torch.zeros(1, 5),)])
    both = concatenate([one, other])
    assert both.states[:, :, 0].tolist() == [[1, 1, 1, 0, 0]] * 2 + [[2] * 5]
    assert both.mask.tolist() == [[True] * 3 + [False] * 2] * 2 + [[True] * 5]
    assert both.final[0][0].tolist() == [[1.0] * 5] * 2 + [[0.0] * 5] and both.ponder_cost is None
