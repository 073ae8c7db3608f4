"""The data types that modules exchange, and the legend of tensor shapes.

    B  examples in a batch          R  beams in total, R = B * beams per example
    S  source positions             T  target positions
    D  model width                  H  heads         V  vocabulary         L  labels

Batch comes first everywhere. Masks are boolean; True means "attend" (a real position).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from regard.special_tokens import BEGIN, END, PAD, UNKNOWN  # noqa: F401 (for whoever imports types)

Tree = Any
"""Tensors in nested dicts, lists and tuples."""


def map_tree(function: Callable[[Tensor], Tensor], tree: Tree) -> Tree:
    """Applies a function to every tensor of a tree and keeps its structure."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {key: map_tree(function, value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_tree(function, value) for value in tree)
    return tree


@dataclass
class Batch:
    """Padded examples: inputs and their targets, in the shapes that stem and head take.

    A text target holds BEGIN, the text, END: `target[:, :-1]` is the decoder's input, `target[:, 1:]` its reference.
    """

    source: Shaped[Tensor, "B *input"]
    source_mask: Bool[Tensor, "B S"]
    target: Shaped[Tensor, "B *output"]
    target_mask: Bool[Tensor, "B T"]
    """True where the loss is computed: not at padding, not at BEGIN."""
    units: int
    """How often `target_mask` is True: the loss is averaged over it. Counted on the host, so no one waits for a GPU."""

    def __len__(self) -> int:
        return self.source.shape[0]

    def to(self, device: torch.device | str) -> Batch:
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin(self) -> Batch:
        """The batch in page-locked memory, from which a GPU copies asynchronously."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return Batch(
            change(self.source), change(self.source_mask), change(self.target), change(self.target_mask), self.units
        )

    def split(self) -> list[Batch]:
        """Two halves, for a batch that ran out of memory."""
        half = len(self) // 2
        halves = [self._each(lambda tensor: tensor[:half]), self._each(lambda tensor: tensor[half:])]
        return [replace(part, units=int(part.target_mask.sum())) for part in halves]


@dataclass
class Memory:
    """An encoder's output: what a decoder attends to or a head reads, one entry per sentence."""

    states: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"]
    final: Tree = None
    """The final state of a recurrent encoder, batch first."""
    ponder_cost: Float[Tensor, "B"] | None = None
    """The weighted ponder time of a model with adaptive halting, which training adds to the loss."""

    def __len__(self) -> int:
        return self.states.shape[0]


@dataclass
class State:
    """The state of a decoder between steps. Beam r belongs to sentence r // beams, so the memory is never tiled."""

    beams: int
    """Beams per sentence: 1 for greedy decoding and sampling, the beam width for beam search."""
    position: Int[Tensor, ""]
    """How many tokens were consumed: a tensor, so that a CUDA graph can be replayed."""
    memory: Tree = field(default_factory=dict)
    """Per sentence, (B, ...): never reordered within a search."""
    cache: Tree = field(default_factory=dict)
    """KV cache per sentence and position, (B, capacity, ...): written one position at a time. Empty for capacity 0."""
    origin: Int[Tensor, "R L"] | None = None
    """Which beam wrote each cached position of a beam's past, so that beams fork without moving the cache."""
    carry: Tree = field(default_factory=dict)
    """Recurrent state per beam, (R, ...)."""
    ponder_cost: Float[Tensor, "R"] | None = None
    """As `Memory.ponder_cost`, of the last step."""


@dataclass
class LossSum:
    """A loss summed over its units (target tokens, positions, examples), so that batches add up exactly."""

    total: Float[Tensor, ""]
    units: int


class BatchStream(ABC):
    """Endless batches in a seeded order, with a cursor to the next one."""

    cursor_is_own: ClassVar[bool] = False
    """Whether the cursor of a rank has the place of its own data alone, so that a checkpoint needs those of all."""

    @abstractmethod
    def __iter__(self) -> Generator[Batch, None, None]: ...

    @abstractmethod
    def cursor(self) -> dict[str, int]:
        """The position after the last batch returned, as plain numbers for a checkpoint."""

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
    """The scores of a validation, the most important one first."""

    scores: dict[str, float]
    samples: list[tuple[str, str, str]] = field(default_factory=list)
    """(input, output, reference) of a few examples."""
