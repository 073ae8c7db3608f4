"""Batches of parallel text: pairs of similar length, padded, within a token budget, in an order set by the seed alone.

An epoch is a permutation of all pairs that is computed, not stored. It is processed in windows: each is sorted by
length, cut into batches, and the batches are shuffled. So the position in the data is three numbers (epoch, window,
batch), and seeking is immediate. The first epoch of a large corpus, which may still be being packed, permutes within
one part after another: the order depends on the corpus and the seed, never on the speed of packing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.data.corpus.mixture import Mixture
from regard.data.corpus.pack import Pack, Part
from regard.data.ragged import Sentences
from regard.data.rank_share import OTHER_RANKS_BATCH, RankShare
from regard.data.shuffling import mixed, permuted
from regard.errors import UserError
from regard.types import BEGIN, END, PAD, Batch, BatchStream

Sample = Callable[[Sentences, np.ndarray], Sentences]
"""Sentences and one random seed each -> the same sentences with another segmentation (subword sampling)."""

_AHEAD = 8  # batches prefetched per worker
BAND = 3
"""Target lengths sorted as one: smaller bands mix sources of all lengths in a batch, larger ones mix targets."""
_PART = 2048  # sentences read at once
SMALL = 10_000
"""Pairs of a corpus up to which its batches per epoch are counted."""


class Batches(BatchStream):
    """An endless `BatchStream` over a pack. Iteration starts at the cursor; only one may run at a time."""

    def __init__(
        self,
        pack: Pack,
        *,
        batch_tokens: int,
        seed: int,
        window: int = 262144,
        workers: int = 1,
        sample: tuple[Sample | None, Sample | None] | None = None,
        pin: bool = False,
        source_end: bool = True,
        mixture: Mixture | None = None,
    ) -> None:
        """`sample` segments source and target anew every epoch: a tokenizer's `resample` with its alpha, or None.

        `workers` threads prefetch batches in order and affect only speed; 0 builds them in the caller's thread. Sources
        end with END unless `source_end` is False. With a `mixture`, an epoch is what it draws, else every pair once.
        """
        if len(pack) == 0:
            raise UserError(f"{pack.folder}: the corpus has no pairs to train on")
        if batch_tokens < 1 or window < 1 or seed < 0:
            raise UserError("training.batch_tokens and data.window must be at least 1, and seed at least 0")
        self._pack = pack
        self._batch_tokens = batch_tokens
        self._seed = seed
        self._window = window
        self._workers = workers
        self._sample = sample or (None, None)
        self._pin = pin
        self._source_end = source_end
        self._mixture = mixture
        self._share = RankShare()
        self._next = {"epoch": 0, "window": 0, "batch": 0}

    def cursor(self) -> dict[str, int]:
        return dict(self._next)

    def seek(self, cursor: dict[str, int]) -> None:
        """Sets the start of the next iteration; if the window now has fewer batches, the next window."""
        self._next = {name: int(cursor[name]) for name in self._next}

    def batches_per_epoch(self) -> int:
        """Batches per epoch of a small corpus; 0 for a larger one, which may not be complete yet."""
        pairs = len(self._pack if self._mixture is None else self._mixture)
        small = self._pack.whole and pairs <= min(SMALL, self._window)
        return len(self._plan(1, 0).batches) if small else 0

    def share(self, rank: int, of: int, together: int) -> None:
        """From the next iteration on, batches of other ranks come empty; the cursor counts them all."""
        self._share = RankShare(rank, of, together)

    def __iter__(self) -> Generator[Batch, None, None]:
        self._pack.grow()
        try:
            yield from self._one_by_one() if self._workers == 0 else self._ahead()
        finally:
            self._pack.stop()

    def _one_by_one(self) -> Iterator[Batch]:
        places = self._places(lambda *place: partial(self._plan, *place))
        for turn, (window, rows, following) in enumerate(places):
            batch = self._build(window, rows) if self._share.has(turn) else OTHER_RANKS_BATCH
            self._next = following
            yield batch

    def _ahead(self) -> Iterator[Batch]:
        pool = ThreadPoolExecutor(self._workers + 1, thread_name_prefix="batches")  # one more, for the next window
        waiting: deque[tuple[Future[Batch] | None, dict[str, int]]] = deque()
        places = self._places(lambda *place: pool.submit(self._plan, *place).result)
        try:
            for turn, (window, rows, following) in enumerate(places):
                building = pool.submit(self._build, window, rows) if self._share.has(turn) else None
                waiting.append((building, following))
                if len(waiting) > _AHEAD * self._workers * self._share.of:
                    future, after = waiting.popleft()
                    batch = future.result() if future else OTHER_RANKS_BATCH
                    self._next = after
                    yield batch
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _places(
        self, start_plan: Callable[[int, int], Callable[[], _Window]]
    ) -> Iterator[tuple[_Window, np.ndarray, dict[str, int]]]:
        """From the cursor on: a window, the rows of one of its batches, and the cursor after it."""
        epoch, number, batch = (self._next[name] for name in ("epoch", "window", "batch"))
        plan = start_plan(epoch, number)
        while True:
            window = plan()
            if window.place != (epoch, number):  # the epoch has no such window
                (epoch, number), batch = window.place, 0
            plan = start_plan(epoch, number + 1)  # planned while this window is used
            for at in range(batch, len(window.batches)):
                last = at + 1 == len(window.batches)
                place = (*self._found(epoch, number + 1)[:2], 0) if last else (epoch, number, at + 1)
                yield window, window.batches[at], dict(zip(("epoch", "window", "batch"), place, strict=True))
            number, batch = number + 1, 0

    def _found(self, epoch: int, number: int) -> tuple[int, int, Part, int]:
        """A window of an epoch, or the first of the next one, with its part and its number within that part."""
        local = number
        for part in self._parts(epoch):
            windows = -(-part.pairs // self._window)
            if local < windows:
                return epoch, number, part, local
            local -= windows
        return self._found(epoch + 1, 0)

    def _parts(self, epoch: int) -> Iterable[Part]:
        """What is shuffled by itself in an epoch."""
        if self._mixture is not None:
            return [Part(0, 0, len(self._mixture), self._pack.longest())]
        return self._pack.parts() if epoch == 0 else [self._pack.everything()]

    def _plan(self, epoch: int, number: int) -> _Window:
        """The pairs of a window, their segmentation, and the rows of each batch."""
        epoch, number, part, local = self._found(epoch, number)
        first = local * self._window
        places = np.arange(first, min(first + self._window, part.pairs), dtype=np.uint64)
        drawn = part.first + permuted(places, part.pairs, self._seed, epoch, part.number)
        rows = drawn if self._mixture is None else self._mixture.rows(drawn, epoch)
        key = np.random.default_rng([self._seed, epoch]).integers(0, 2**63, dtype=np.uint64)
        seeds = mixed(drawn.astype(np.uint64) + key)
        source_sample, target_sample = self._sample
        longest_source, longest_target = part.longest
        source = self._read(self._pack.source, rows, source_sample, seeds, longest_source)
        target = self._read(self._pack.target, rows, target_sample, seeds + np.uint64(1), longest_target)
        source_lengths, target_lengths = np.diff(source.offsets) + 1, np.diff(target.offsets) + 1
        # Sorted by bands of target length and, within them, by source length, alternately up and down: neighbours are
        # similar on both sides. The sort is stable and the rows are shuffled, so ties stay random.
        band = target_lengths // BAND
        order = np.lexsort((np.where(band % 2 == 0, source_lengths, -source_lengths), band))
        cuts = list(_cut(source_lengths[order], target_lengths[order], self._batch_tokens))
        shuffled = np.random.default_rng([self._seed, epoch, number]).permutation(len(cuts))
        return _Window((epoch, number), source, target, [order[slice(*cuts[i])] for i in shuffled])

    def _read(
        self, side: Sentences, rows: np.ndarray, sample: Sample | None, seeds: np.ndarray, longest: int
    ) -> Sentences:
        """Copies rows, resampled if asked, a few at a time so that little of the pack is in memory."""
        parts = []
        for start in range(0, len(rows), _PART):
            ids, lengths = side.gather(rows[start : start + _PART])
            if sample is not None:
                stored = Sentences.of_lengths(ids, lengths)
                ids, lengths = _shorter_than(longest, sample(stored, seeds[start : start + _PART]), stored)
            parts.append((ids, lengths))
            self._pack.release()
        return Sentences.of_lengths(*map(np.concatenate, zip(*parts, strict=True)))

    def _build(self, window: _Window, rows: np.ndarray) -> Batch:
        source, source_mask = _padded(*window.source.gather(rows), begin=False, end=self._source_end)
        target, target_mask = _padded(*window.target.gather(rows), begin=True)
        units = int(window.target.lengths(rows).sum()) + len(rows)
        batch = Batch(source, source_mask, target, target_mask, units)
        return batch.pin() if self._pin else batch


class _Window(NamedTuple):
    """The sentences of a window and the rows of each batch, in order."""

    place: tuple[int, int]
    """Epoch and number."""
    source: Sentences
    target: Sentences
    batches: list[np.ndarray]


def _shorter_than(longest: int, drawn: Sentences, stored: Sentences) -> tuple[np.ndarray, np.ndarray]:
    """The resampled sentences, or the stored ones where they grew longer than the model may have positions for."""
    both = Sentences(
        np.concatenate([stored.ids, drawn.ids]), np.concatenate([stored.offsets, drawn.offsets[1:] + len(stored.ids)])
    )
    fits = np.diff(drawn.offsets) <= longest
    return both.gather(np.arange(len(stored)) + len(stored) * fits)


def _cut(source: np.ndarray, target: np.ndarray, batch_tokens: int) -> Iterator[tuple[int, int]]:
    """Slices in which rows times the longest length stays within the budget on both sides."""
    start = 0
    while start < len(target):
        most = max(1, batch_tokens // int(max(source[start], target[start])))
        longest = np.maximum.accumulate(np.maximum(source[start : start + most], target[start : start + most]))
        rows = np.arange(1, len(longest) + 1)
        fitting = int(np.count_nonzero(rows * longest <= batch_tokens))  # rows * longest only grows
        stop = start + max(1, fitting)
        yield start, stop
        start = stop


def _padded(ids: np.ndarray, lengths: np.ndarray, begin: bool, end: bool = True) -> tuple[Tensor, Tensor]:
    """Concatenated sentences -> a padded matrix, each preceded by BEGIN and followed by END as asked, and its mask.

    The mask leaves out BEGIN, which is never predicted.
    """
    width = int(lengths.max()) + begin + end
    places = np.arange(width)
    ends = (lengths + begin)[:, None]
    matrix = np.full((len(lengths), width), PAD, dtype=np.int64)
    text = places < ends
    if begin:
        matrix[:, 0] = BEGIN
        text[:, 0] = False
    matrix[text] = ids
    if end:
        matrix[np.arange(len(lengths)), ends[:, 0]] = END
    return torch.from_numpy(matrix), torch.from_numpy((places < ends + end) & (places >= begin))


def sorted_batches(id_lists: Sequence[Sequence[int]], batch_tokens: int) -> Iterator[list[int]]:
    """Indices grouped by length, longest first, with rows * (longest + END) within the budget."""
    order = sorted(range(len(id_lists)), key=lambda i: (-len(id_lists[i]), i))
    start = 0
    while start < len(order):
        rows = max(1, batch_tokens // (len(id_lists[order[start]]) + 1))
        yield order[start : start + rows]
        start += rows


def pad(id_lists: Sequence[Sequence[int]], multiple: int = 1) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Lists of ids in one matrix, padded on the right to a multiple of `multiple`, and its mask."""
    width = -(-max(map(len, id_lists), default=0) // multiple) * multiple
    ids = torch.full((len(id_lists), width), PAD, dtype=torch.long)
    mask = torch.zeros(len(id_lists), width, dtype=torch.bool)
    for row, sentence in enumerate(id_lists):
        ids[row, : len(sentence)] = torch.tensor(list(sentence), dtype=torch.long)
        mask[row, : len(sentence)] = True
    return ids, mask
