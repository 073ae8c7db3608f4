"""The values that travel between the rooms, and the one legend of shapes.

    B  examples in a batch          R  rows being decoded, R = B * rows-per-example
    S  source positions             T  target positions
    D  model width                  H  heads         V  vocabulary         L  labels

Batch comes first everywhere. Masks are boolean and True means "may be attended" (a real position).
Nothing here imports anything of ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn import functional

Tree = Any
"""Tensors in dicts, lists and tuples, nested as a layer likes."""

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3
"""The four ids every tokenizer begins with."""


def map_tree(function: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {key: map_tree(function, value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_tree(function, value) for value in tree)
    return tree


@dataclass
class Batch:
    """Padded examples: an input and what is wanted of it, each of whatever shape its stem or head takes.

    A target that is text holds BEGIN, the text, END: `target[:, :-1]` is fed, `target[:, 1:]` is wanted.
    """

    source: Shaped[Tensor, "B *input"]
    source_mask: Bool[Tensor, "B S"]
    target: Shaped[Tensor, "B *output"]
    target_mask: Bool[Tensor, "B T"]
    """Where something is wanted: at padding nothing is, nor at BEGIN."""
    units: int
    """How often the mask is True: what a loss is averaged over. Counted on the host: nobody waits for the GPU."""

    def __len__(self) -> int:
        return self.source.shape[0]

    def to(self, device: torch.device | str) -> Batch:
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin(self) -> Batch:
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return Batch(
            change(self.source), change(self.source_mask), change(self.target), change(self.target_mask), self.units
        )

    def split(self) -> list[Batch]:
        """Two halves, for a batch that did not fit in memory."""
        half = len(self) // 2
        parts = [slice(0, half), slice(half, None)]
        return [self._rows(part) for part in parts]

    def _rows(self, part: slice) -> Batch:
        target_mask = self.target_mask[part]
        return Batch(self.source[part], self.source_mask[part], self.target[part], target_mask, int(target_mask.sum()))


@dataclass
class Memory:
    """What an encoder leaves for a decoder to look at, one entry a sentence."""

    states: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"]
    final: Tree = None
    """The last state of a recurrent encoder, batch first."""
    cost: Float[Tensor, "B"] | None = None
    """What thinking cost, weighted: a model that halts by itself is trained to keep it low."""

    def __len__(self) -> int:
        return self.states.shape[0]


def joined(memories: Sequence[Memory]) -> Memory:
    """One memory of all their sentences, in order."""
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
        together([memory.cost for memory in memories]),
    )


def nothing(examples: int, device: torch.device | str = "cpu") -> Memory:
    """The memory of a decoder that has nothing to look at: a language model's."""
    return Memory(torch.zeros(examples, 0, 1, device=device), torch.zeros(examples, 0, dtype=torch.bool, device=device))


@dataclass
class State:
    """Where a decoder is. Row r belongs to sentence r // rows, so what is per sentence is never tiled."""

    rows: int
    """Rows a sentence: 1 for greedy, the beam's width for a beam."""
    position: Int[Tensor, ""]
    """How many tokens were consumed: a tensor, so that a recorded graph can be replayed."""
    memory: Tree = field(default_factory=dict)
    """Per sentence, (B, ...): never reordered within a search."""
    slots: Tree = field(default_factory=dict)
    """Per sentence and position, (B, capacity, ...): filled one position at a time. Empty when capacity is 0."""
    origin: Int[Tensor, "R L"] | None = None
    """Which row of its sentence wrote each position of a row's past. So rows part and die without moving any slot."""
    carry: Tree = field(default_factory=dict)
    """Per row, (R, ...): the state of a recurrent decoder."""
    cost: Float[Tensor, "R"] | None = None
    """As the memory's, of what was decoded last."""


def select_(state: State, index: Int[Tensor, "R"]) -> State:
    """Row r continues what row `index[r]`, of the same sentence, was; in place."""

    def moved(buffer: Tensor) -> Tensor:
        return buffer.copy_(buffer.index_select(0, index))

    map_tree(moved, [state.carry, state.origin])
    return state


def fork(state: State) -> State:
    """A copy that lives its own life; the memory, which nobody writes, is shared."""
    slots, carry, origin, position = map_tree(Tensor.clone, [state.slots, state.carry, state.origin, state.position])
    return replace(state, slots=slots, carry=carry, origin=origin, position=position)


def narrow(state: State, sentences: Int[Tensor, "N"]) -> State:
    """The state of some of the sentences only: what a search keeps when the others are done."""
    offsets = torch.arange(state.rows, device=sentences.device)
    rows = (sentences[:, None] * state.rows + offsets).flatten()
    memory, slots = map_tree(lambda t: t.index_select(0, sentences), [state.memory, state.slots])
    carry, origin, cost = map_tree(lambda t: t.index_select(0, rows), [state.carry, state.origin, state.cost])
    return replace(state, memory=memory, slots=slots, carry=carry, origin=origin, cost=cost)


def grow(state: State, capacity: int) -> State:
    """The same with room for more positions."""

    def longer(buffer: Tensor) -> Tensor:
        more = buffer.new_zeros(buffer.shape[0], capacity - buffer.shape[1], *buffer.shape[2:])
        return torch.cat([buffer, more], 1)

    slots, origin = map_tree(longer, [state.slots, state.origin])
    return replace(state, slots=slots, origin=origin)


@runtime_checkable
class Steps(Protocol):
    """All that a search knows of a model."""

    def start(self, memory: Memory, rows: int, capacity: int) -> State: ...

    def step(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T V"], State]: ...


@dataclass
class LossSum:
    """A loss summed over its units (target tokens, positions, examples), so that batches add up exactly."""

    total: Float[Tensor, ""]
    units: int


class BatchStream(ABC):
    """Endless batches in a seeded order, with a cursor that says which comes next."""

    @abstractmethod
    def __iter__(self) -> Generator[Batch, None, None]: ...

    @abstractmethod
    def cursor(self) -> dict[str, int]:
        """Where the batch after the last one handed out is; plain numbers, to be saved."""

    @abstractmethod
    def seek(self, cursor: dict[str, int]) -> None:
        """The next iteration starts at the cursor."""

    def share(self, rank: int, of: int, together: int) -> None:
        """From the next iteration on, of each `together` batches only every `of`-th, from `rank` on, is used. A stream
        may leave the others without rows; the cursor counts them all."""
        return None

    def batches_per_epoch(self) -> int:
        """0 if unknown, or if the corpus is too large for it to matter."""
        return 0


Better = Literal["higher", "lower"]
"""Which values of a score are better."""


@dataclass
class Validation:
    """What a validation found: its scores, the one that counts first."""

    scores: dict[str, float]
    samples: list[tuple[str, str, str]] = field(default_factory=list)
    """(input, output, what was wanted) of a few examples."""


@dataclass
class Hypothesis:
    """One finished output of a search, without BEGIN and END."""

    ids: list[int]
    log_probability: float
    """Sum over the tokens, END included when it was reached."""
    score: float
    """What the search ranks by: the log-probability after the length penalty."""
    finished: bool = True
    """False when the length limit ended it rather than END."""
