"""Batches: pairs of like length, padded, within a budget of tokens, in an order that only the seed decides.

An epoch is a permutation of all pairs that is computed, not stored. It is taken in windows; a window is sorted by
length, cut into batches, and its batches are shuffled. So a place in the data is three numbers, found at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.data.corpus.pack import Pack, Sentences
from regard.errors import UserError
from regard.types import BEGIN, END, PAD, Batch

Sample = Callable[[list[int], np.random.Generator], list[int]]
"""Another way to cut a sentence into tokens, such as a tokenizer's `resample` with its alpha filled in."""

_AHEAD = 8  # batches prepared before they are asked for, for each worker


class Batches:
    """An endless `BatchStream` over a pack. Iterating starts at the cursor; only one iteration may run at a time."""

    def __init__(
        self,
        pack: Pack,
        *,
        batch_tokens: int,
        seed: int,
        window: int = 131072,
        workers: int = 1,
        sample: tuple[Sample | None, Sample | None] | None = None,
        pin: bool = False,
    ) -> None:
        """`sample` re-cuts the source and the target; lengths then only roughly keep within the budget.

        `workers` threads prepare batches ahead, in order, and change nothing but speed; 0 prepares in the caller's.
        """
        if len(pack) == 0:
            raise UserError(f"{pack.folder}: the corpus has no pairs to train on")
        if batch_tokens < 1 or window < 1:
            raise UserError("training.batch_tokens and data.window must be at least 1")
        self._pack = pack
        self._batch_tokens = batch_tokens
        self._seed = seed
        self._window = window
        self._workers = workers
        self._sample = sample or (None, None)
        self._pin = pin
        self._next = {"epoch": 0, "window": 0, "batch": 0}

    def cursor(self) -> dict[str, int]:
        return dict(self._next)

    def seek(self, cursor: dict[str, int]) -> None:
        """The next iteration starts there, or at the next window if the budget was changed and it has fewer batches."""
        self._next = {name: int(cursor[name]) for name in self._next}

    def __iter__(self) -> Iterator[Batch]:
        if self._workers == 0:
            return self._one_by_one()
        return self._ahead()

    def _one_by_one(self) -> Iterator[Batch]:
        for rows, epoch, following in self._places(lambda epoch, window: lambda: self._plan(epoch, window)):
            batch = self._build(rows, epoch)
            self._next = following
            yield batch

    def _ahead(self) -> Iterator[Batch]:
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="batches")
        waiting: deque[tuple[Future[Batch], dict[str, int]]] = deque()
        try:
            for rows, epoch, following in self._places(lambda *place: pool.submit(self._plan, *place).result):
                waiting.append((pool.submit(self._build, rows, epoch), following))
                if len(waiting) > _AHEAD * self._workers:
                    future, self_next = waiting.popleft()
                    batch = future.result()
                    self._next = self_next
                    yield batch
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _places(
        self, start_plan: Callable[[int, int], Callable[[], list[np.ndarray]]]
    ) -> Iterator[tuple[np.ndarray, int, dict[str, int]]]:
        """The pairs of each batch from the cursor on, their epoch, and the cursor that follows."""
        epoch, window, batch = (self._next[name] for name in ("epoch", "window", "batch"))
        windows = -(-len(self._pack) // self._window)
        if window >= windows:  # the corpus was made smaller
            epoch, window, batch = epoch + 1, 0, 0
        plan = start_plan(epoch, window)
        while True:
            after = (epoch, window + 1) if window + 1 < windows else (epoch + 1, 0)
            batches = plan()
            plan = start_plan(*after)
            for number in range(batch, len(batches)):
                last = number + 1 == len(batches)
                place = (*after, 0) if last else (epoch, window, number + 1)
                yield batches[number], epoch, dict(zip(("epoch", "window", "batch"), place, strict=True))
            (epoch, window), batch = after, 0

    def _plan(self, epoch: int, window: int) -> list[np.ndarray]:
        """The batches of a window, as indexes of pairs."""
        first = window * self._window
        places = np.arange(first, min(first + self._window, len(self._pack)), dtype=np.uint64)
        indexes = permuted(places, len(self._pack), self._seed, epoch)
        source, target = self._pack.lengths(indexes)
        order = np.lexsort((source, target))  # stable, and the indexes are shuffled: ties are in random order
        indexes, source, target = indexes[order], source[order] + 1, target[order] + 1
        batches = [indexes[start:stop] for start, stop in _cut(source, target, self._batch_tokens)]
        shuffled = np.random.default_rng([self._seed, epoch, window]).permutation(len(batches))
        self._pack.release()
        return [batches[i] for i in shuffled]

    def _build(self, rows: np.ndarray, epoch: int) -> Batch:
        source_sample, target_sample = self._sample
        source, source_lengths = self._sentences(self._pack.source, rows, source_sample, epoch, 0)
        target, target_lengths = self._sentences(self._pack.target, rows, target_sample, epoch, 1)
        source_ids, source_mask = _padded(source, source_lengths, begin=False)
        target_ids, target_mask = _padded(target, target_lengths, begin=True)
        units = int(target_lengths.sum()) + len(rows)
        batch = Batch(source_ids, source_mask, target_ids, target_mask, units)
        return batch.pin() if self._pin else batch

    def _sentences(
        self, side: Sentences, rows: np.ndarray, sample: Sample | None, epoch: int, number: int
    ) -> tuple[np.ndarray, np.ndarray]:
        ids, lengths = side.gather(rows)
        if sample is None:
            return ids, lengths
        cut = []
        for row, stored in zip(rows.tolist(), np.split(ids, lengths.cumsum()[:-1]), strict=True):
            drawn = sample(stored.tolist(), np.random.default_rng([self._seed, epoch, row, number]))
            # Nothing grows beyond the longest sentence of the corpus: a model may have no positions for it.
            cut.append(stored if len(drawn) > side.longest else np.asarray(drawn))
        return np.concatenate(cut), np.array([len(sentence) for sentence in cut])


def permuted(places: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
    """Where each place of 0..count-1 goes in a seeded shuffle of them all, without ever holding the shuffle.

    A Feistel network shuffles the numbers below a power of four that covers `count`; those that land outside go
    through it again until they land inside (cycle walking), which keeps it a permutation.
    """
    half = np.uint64(max(1, (max(count - 1, 1).bit_length() + 1) // 2))
    low = (np.uint64(1) << half) - np.uint64(1)
    keys = np.random.default_rng([seed, epoch]).integers(0, 2**63, size=6, dtype=np.uint64)
    result = places.astype(np.uint64)
    outside = np.arange(len(result))
    while len(outside):
        left, right = result[outside] >> half, result[outside] & low
        for key in keys:
            left, right = right, left ^ (_mixed(right ^ key) & low)
        result[outside] = left << half | right
        outside = outside[result[outside] >= count]
    return result.astype(np.int64)


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Numbers in which every bit depends on every bit: two rounds of multiply and shift, modulo 2 ** 64."""
    for factor in (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93):
        numbers = (numbers ^ numbers >> np.uint64(32)) * np.uint64(factor)
    return numbers ^ numbers >> np.uint64(32)


def _cut(source: np.ndarray, target: np.ndarray, batch_tokens: int) -> Iterator[tuple[int, int]]:
    """Slices of pairs sorted by target length in which rows times longest stays within the budget on both sides."""
    start = 0
    while start < len(target):
        most = max(1, batch_tokens // int(target[start]))
        longest = np.maximum.accumulate(np.maximum(source[start : start + most], target[start : start + most]))
        rows = np.arange(1, len(longest) + 1)
        fitting = int(np.count_nonzero(rows * longest <= batch_tokens))  # rows * longest only grows
        stop = start + max(1, fitting)
        yield start, stop
        start = stop


def _padded(ids: np.ndarray, lengths: np.ndarray, begin: bool) -> tuple[Tensor, Tensor]:
    """Sentences one after another -> a padded matrix, each with END after it (and BEGIN before it), and its mask."""
    width = int(lengths.max()) + 1 + begin
    places = np.arange(width)
    ends = (lengths + begin)[:, None]
    matrix = np.full((len(lengths), width), PAD, dtype=np.int64)
    text = places < ends
    if begin:
        matrix[:, 0] = BEGIN
        text[:, 0] = False
    matrix[text] = ids
    matrix[np.arange(len(lengths)), ends[:, 0]] = END
    return torch.from_numpy(matrix), torch.from_numpy(places <= ends)


def sorted_batches(id_lists: Sequence[Sequence[int]], batch_tokens: int) -> Iterator[list[int]]:
    """Indexes grouped by length, longest first, so that rows * (longest + END) stays within the budget."""
    order = sorted(range(len(id_lists)), key=lambda i: (-len(id_lists[i]), i))
    start = 0
    while start < len(order):
        rows = max(1, batch_tokens // (len(id_lists[order[start]]) + 1))
        yield order[start : start + rows]
        start += rows


def pad(id_lists: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Lists of ids, just as they are, in one matrix padded on the right, and where it holds them."""
    width = max(map(len, id_lists), default=0)
    ids = torch.full((len(id_lists), width), PAD, dtype=torch.long)
    mask = torch.zeros(len(id_lists), width, dtype=torch.bool)
    for row, sentence in enumerate(id_lists):
        ids[row, : len(sentence)] = torch.tensor(list(sentence), dtype=torch.long)
        mask[row, : len(sentence)] = True
    return ids, mask
