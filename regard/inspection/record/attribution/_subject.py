"""What every method of attribution works on: a model, one input, and the outputs to explain.

The inputs are the vectors of tokens or patches before their positions are added. A vector of zeros is the baseline of
all methods: a token of which nothing is known but its position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.inspection.record.arithmetic.interception import plain_linears
from regard.inspection.trace.base import SOURCE, TARGET, Attention
from regard.layers.add_position import AddPosition
from regard.layers.embedding import TokenEmbedding

Vectors = dict[str, Tensor]
"""SOURCE and TARGET -> (copies, tokens, width)."""
AT_ONCE = 2**25
"""Logits that are computed at once."""
POSITIONS = 2**12
"""Positions of all copies that are computed at once: between two forward passes a caller can stop."""


@dataclass(frozen=True)
class Unit:
    """A column: the tokens of a word, or one patch."""

    side: str
    tokens: tuple[int, ...]


@dataclass
class Subject:
    """Calling it with vectors gives the explained quantities."""

    model: nn.Module
    log_probabilities: Callable[[int], Float[Tensor, "B T V"]]
    """Runs the model on so many copies of the input. It must create its own tensors, like `gradients_of`."""
    outputs: Sequence[tuple[int, int]]
    """The position and the chosen index of each output to explain."""
    units: Sequence[Unit]
    contrast: int | None = None
    """The index to explain each output against."""
    attention: Sequence[Attention] = ()
    """What the trace recorded."""
    pooled: Sequence[Sequence[int]] | None = None
    """The encoder's positions that each output is computed from; None: there is a decoder."""
    vectors: Vectors = field(init=False)
    """The actual ones, with one copy."""
    at_once: int = field(init=False)
    """Copies that one forward pass may have."""

    def __post_init__(self) -> None:
        self.vectors = {}

        def remember(side: str, vectors: Tensor) -> Tensor:
            self.vectors[side] = vectors.detach()
            return vectors

        with plain_linears(self.model), changed_vectors(self.model, remember), torch.no_grad():
            found = self.log_probabilities(1)
        positions = sum(own.shape[1] for own in self.vectors.values())
        self.at_once = int(max(1, min(64, AT_ONCE // found[0].numel(), POSITIONS // max(1, positions))))

    def __call__(self, vectors: Vectors) -> Float[Tensor, "B R"]:
        """The explained quantities with these vectors in place of the actual ones."""
        return self.chosen(self.run(vectors))

    def run(self, vectors: Vectors) -> Float[Tensor, "B T V"]:
        copies = len(next(iter(vectors.values())))
        with plain_linears(self.model), changed_vectors(self.model, lambda side, own: vectors.get(side, own)):
            return self.log_probabilities(copies)

    def chosen(self, log_probabilities: Float[Tensor, "B T V"]) -> Float[Tensor, "B R"]:
        at = torch.tensor([position for position, _ in self.outputs], device=log_probabilities.device)
        index = torch.tensor([index for _, index in self.outputs], device=log_probabilities.device)
        found = log_probabilities[:, at, index]
        return found if self.contrast is None else found - log_probabilities[:, at, self.contrast]

    def without(self, units: Sequence[Unit]) -> Vectors:
        """A copy for each of these units, in which its vectors are zero."""
        found = {side: vectors.repeat(len(units), 1, 1) for side, vectors in self.vectors.items()}
        for copy, unit in enumerate(units):
            found[unit.side][copy, list(unit.tokens)] = 0
        return found

    def baseline(self) -> Vectors:
        """All units are zero at once; what belongs to none (a class token) stays."""
        found = {side: vectors.clone() for side, vectors in self.vectors.items()}
        for unit in self.units:
            found[unit.side][0, list(unit.tokens)] = 0
        return found

    def by_unit(self, of_tokens: dict[str, Float[Tensor, "R N"]]) -> np.ndarray:
        """Values of single tokens, summed over those of each unit: (outputs, units)."""
        columns = [of_tokens[unit.side][:, list(unit.tokens)].sum(1) for unit in self.units]
        return torch.stack(columns, 1).cpu().numpy()


@dataclass
class Found:
    """What a method returns."""

    values: np.ndarray
    """(outputs, units)"""
    completeness_error: float | None = None
    steps: int | None = None
    mean: bool = False
    """Whether a word's value is the mean over its output tokens, not their sum: for shares that sum to one."""


@contextmanager
def changed_vectors(model: nn.Module, change: Callable[[str, Tensor], Tensor]) -> Iterator[None]:
    """Passes the vectors of each side, before their positions are added, through `change(side, vectors)`."""
    hooks = []
    reading: list[str] = []  # source and target may share one table: whose turn it is
    tables: dict[nn.Module, None] = {}
    for path, module in model.named_modules():
        side = SOURCE if path.startswith(("stem.", "encoder.")) else TARGET
        if isinstance(module, TokenEmbedding):
            hooks.append(module.register_forward_pre_hook(lambda *_, side=side: reading.append(side)))
            tables[module.table] = None
        elif isinstance(module, AddPosition):
            hooks.append(module.register_forward_pre_hook(lambda module, given, side=side: (change(side, given[0]),)))
    for table in tables:
        hooks.append(table.register_forward_hook(lambda module, given, out: change(reading.pop(), out)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def batches(units: Sequence[Unit], size: int) -> Iterator[Sequence[Unit]]:
    for first in range(0, len(units), size):
        yield units[first : first + size]
