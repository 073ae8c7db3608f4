"""What a search works with: the interface of a decoder, operations on its state, and hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from regard.hypothesis import Hypothesis as Hypothesis
from regard.types import Memory, State, Tree, map_tree


@runtime_checkable
class StepwiseDecoder(Protocol):
    """All that a search knows about a model."""

    def start(self, memory: Memory, beams: int, capacity: int) -> State: ...

    def step(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T V"], State]: ...


def select_(state: State, index: Int[Tensor, "R"]) -> State:
    """Beam r continues from beam `index[r]` of the same sentence; in place."""

    def moved(buffer: Tensor) -> Tensor:
        return buffer.copy_(buffer.index_select(0, index))

    map_tree(moved, [state.carry, state.origin])
    return state


def fork(state: State) -> State:
    """An independent copy; the memory, which is read-only, is shared."""
    cache, carry, origin, position = map_tree(Tensor.clone, [state.cache, state.carry, state.origin, state.position])
    return replace(state, cache=cache, carry=carry, origin=origin, position=position)


def narrow(state: State, sentences: Int[Tensor, "N"]) -> State:
    """The state of these sentences only: what a search keeps when the others are finished."""
    offsets = torch.arange(state.beams, device=sentences.device)
    beams = (sentences[:, None] * state.beams + offsets).flatten()
    memory, cache = map_tree(lambda t: t.index_select(0, sentences), [state.memory, state.cache])
    carry, origin, ponder = map_tree(lambda t: t.index_select(0, beams), [state.carry, state.origin, state.ponder_cost])
    return replace(state, memory=memory, cache=cache, carry=carry, origin=origin, ponder_cost=ponder)


def grow(state: State, capacity: int) -> State:
    """The same state with a larger KV cache."""

    def longer(buffer: Tensor) -> Tensor:
        more = buffer.new_zeros(buffer.shape[0], capacity - buffer.shape[1], *buffer.shape[2:])
        return torch.cat([buffer, more], 1)

    cache, origin = map_tree(longer, [state.cache, state.origin])
    return replace(state, cache=cache, origin=origin)


def empty_memory(examples: int, device: torch.device | str = "cpu") -> Memory:
    """The memory of a language model's decoder, which has no source: zero positions."""
    return Memory(torch.zeros(examples, 0, 1, device=device), torch.zeros(examples, 0, dtype=torch.bool, device=device))


def concatenate(memories: Sequence[Memory]) -> Memory:
    """One memory of all their sentences, in order, padded to the longest."""
    longest = max(memory.mask.shape[1] for memory in memories)

    def together(trees: Sequence[Tree]) -> Tree:
        first = trees[0]
        if isinstance(first, Tensor):
            return torch.cat(list(trees))
        if isinstance(first, dict):
            return {key: together([tree[key] for tree in trees]) for key in first}
        return type(first)(map(together, zip(*trees))) if isinstance(first, (list, tuple)) else first

    missing = [longest - memory.mask.shape[1] for memory in memories]
    return Memory(
        torch.cat([functional.pad(memory.states, (0, 0, 0, more)) for memory, more in zip(memories, missing)]),
        torch.cat([functional.pad(memory.mask, (0, more)) for memory, more in zip(memories, missing)]),
        together([memory.final for memory in memories]),
        together([memory.ponder_cost for memory in memories]),
    )
