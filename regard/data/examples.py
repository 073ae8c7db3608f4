"""Batches of examples in memory: any input, any target, in an order set by the seed alone.

For corpora too large for memory see batching.py. An epoch is one shuffle of all examples, grouped by similar length, so
the position in the data is two numbers (epoch, batch).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data.rank_share import OTHER_RANKS_BATCH, RankShare
from regard.errors import UserError
from regard.types import Batch, BatchStream


class Coded(NamedTuple):
    """An example as numbers."""

    source: np.ndarray
    """(S, ...), or a shape that all examples share."""
    target: np.ndarray
    """(T, ...)."""
    target_mask: np.ndarray
    """(T,), boolean: positions that count in the loss."""


Epochs = Callable[[int], Sequence[Coded]]
"""The examples of an epoch, which may differ from epoch to epoch."""


class ExampleBatches(BatchStream):
    """An endless `BatchStream` over examples in memory."""

    def __init__(
        self, epochs: Epochs, *, varying: bool, batch_tokens: int, batch_examples: int = 0, seed: int = 1
    ) -> None:
        """A batch has `batch_examples` examples, or if that is 0 as many as fit `batch_tokens` padded positions."""
        if len(epochs(0)) == 0:
            raise UserError("data.train: there are no examples to train on")
        if batch_tokens < 1 or batch_examples < 0 or seed < 0:
            raise UserError("training.batch_tokens must be at least 1, batch_examples and seed at least 0")
        self._epochs, self._varying, self._seed = epochs, varying, seed
        self._tokens, self._examples = batch_tokens, batch_examples
        self._share = RankShare()
        self._next = {"epoch": 0, "batch": 0}

    def batches_per_epoch(self) -> int:
        return len(self._plan(self._epochs(0), 0))

    def share(self, rank: int, of: int, together: int) -> None:
        """From the next iteration on, batches of other ranks come empty; the cursor counts them all."""
        self._share = RankShare(rank, of, together)

    def cursor(self) -> dict[str, int]:
        return dict(self._next)

    def seek(self, cursor: dict[str, int]) -> None:
        self._next = {name: int(cursor[name]) for name in self._next}

    def __iter__(self) -> Generator[Batch, None, None]:
        turn = 0
        while True:
            epoch, first = self._next["epoch"], self._next["batch"]
            examples = self._epochs(epoch)
            plan = self._plan(examples, epoch)
            for number in range(first, len(plan)):
                mine = self._share.has(turn)
                batch = collate([examples[i] for i in plan[number]], self._varying) if mine else OTHER_RANKS_BATCH
                turn += 1
                last = number + 1 == len(plan)
                self._next = {"epoch": epoch + last, "batch": 0 if last else number + 1}
                yield batch
            if first >= len(plan):  # a changed budget makes fewer batches
                self._next = {"epoch": epoch + 1, "batch": 0}

    def _plan(self, examples: Sequence[Coded], epoch: int) -> list[np.ndarray]:
        random = np.random.default_rng([self._seed, epoch])
        order = random.permutation(len(examples))
        if self._examples and not self._varying:
            cuts = range(0, len(order), self._examples)
            return [order[start : start + self._examples] for start in cuts]
        lengths = np.array([_length(examples[i]) for i in order])
        # Sorted by length with some noise, so that batches differ between epochs.
        near = np.argsort(lengths * (1 + 0.1 * random.random(len(order))), kind="stable")
        order, lengths = order[near], lengths[near]
        batches, start = [], 0
        while start < len(order):
            stop = start + self._fitting(lengths[start:])
            batches.append(order[start:stop])
            start = stop
        return [batches[i] for i in random.permutation(len(batches))]

    def _fitting(self, lengths: np.ndarray) -> int:
        if self._examples:
            return self._examples
        longest = np.maximum.accumulate(lengths[: self._tokens])
        return max(1, int(np.count_nonzero(np.arange(1, len(longest) + 1) * longest <= self._tokens)))


def _length(example: Coded) -> int:
    return max(1, len(example.source), len(example.target))


def collate(examples: Sequence[Coded], varying: bool) -> Batch:
    """One batch, padded on the right."""
    source, source_mask = pad_arrays([e.source for e in examples], varying)
    target, _ = pad_arrays([e.target for e in examples], True)
    target_mask, _ = pad_arrays([e.target_mask for e in examples], True)
    return Batch(source, source_mask, target, target_mask, int(target_mask.sum()))


def pad_arrays(arrays: Sequence[np.ndarray], varying: bool) -> tuple[Tensor, Tensor]:
    """One tensor, padded with zeros along the first axis, and its mask; arrays of one shape are stacked."""
    if not varying:
        return torch.from_numpy(np.stack(arrays)), torch.ones(len(arrays), 1, dtype=torch.bool)
    lengths = np.array([len(array) for array in arrays])
    real = np.arange(lengths.max(initial=0)) < lengths[:, None]
    padded = np.zeros((*real.shape, *arrays[0].shape[1:]), arrays[0].dtype)
    padded[real] = np.concatenate(arrays)
    return torch.from_numpy(padded), torch.from_numpy(real)
