"""Batches of parallel text in shards at URLs: each process fetches and tokenises only its share, on its own disk.

The shards are dealt into lanes, one for each batch of a step: batch number i of every step comes from lane i, which
goes through its own shards over and over, in a seeded order. Several processes divide the lanes, so the batches are the
same however many there are. Of each lane, the current shard and the next one are on the disk.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from regard.data.batching import Batches
from regard.data.corpus.pack import Pack
from regard.data.corpus.shards import Shard, fetch, local_folder
from regard.data.rank_share import OTHER_RANKS_BATCH
from regard.data.shuffling import permuted
from regard.errors import UserError
from regard.types import Batch, BatchStream

Read = Callable[[Path, list[Path], threading.Event], Pack]
"""A folder, and the fetched files of a shard -> its pack, which may still grow. Cancelled once the event is set."""
Make = Callable[[Pack, int, int], Batches]
"""A pack, a seed and the number of lanes -> its batches."""


class ShardBatches(BatchStream):
    """An endless `BatchStream`; only one iteration may run at a time."""

    cursor_is_own = True

    def __init__(self, shards: Sequence[Shard], read: Read, make: Make, seed: int) -> None:
        self._shards, self._read, self._make, self._seed = list(shards), read, make, seed
        self._rank, self._of, self._lanes = 0, 1, 1
        self._next: dict[int, tuple[int, int, int]] = {0: (0, 0, 0)}
        """Of each own lane: shards it has gone through, and the next batch as window and number in it."""
        self._stopped = threading.Event()

    def share(self, rank: int, of: int, together: int) -> None:
        if len(self._shards) < together:
            raise UserError(
                f"data.source: {len(self._shards)} shards are fewer than the {together} batches of a step "
                "(training.accumulate), each of which comes from shards of its own; divide the text into more"
            )
        self._rank, self._of, self._lanes = rank, of, together
        self._next = dict.fromkeys(range(rank, together, of), (0, 0, 0))

    def cursor(self) -> dict[str, int]:
        """The position of this rank's own lanes; a checkpoint holds those of all ranks."""
        return {
            f"{lane}.{name}": number
            for lane, place in self._next.items()
            for name, number in zip(("shard", "window", "batch"), place)
        }

    def seek(self, cursor: dict[str, int]) -> None:
        saved = {key.partition(".")[0] for key in cursor}
        if len(saved) != self._lanes:
            raise UserError(
                f"training.accumulate was {len(saved)} when this was saved, not {self._lanes}; with text in shards it "
                f"stays: set training.accumulate={len(saved)}, and start at most as many processes"
            )
        self._next = {
            lane: (cursor[f"{lane}.shard"], cursor[f"{lane}.window"], cursor[f"{lane}.batch"]) for lane in self._next
        }

    def __iter__(self) -> Generator[Batch, None, None]:
        with contextlib.ExitStack() as stack:
            self._stopped = threading.Event()
            place = local_folder()
            stack.callback(shutil.rmtree, place, ignore_errors=True)
            pool = stack.enter_context(ThreadPoolExecutor(len(self._next), thread_name_prefix="shards"))
            lanes = {lane: self._lane(lane, place, pool) for lane in self._next}
            for one in lanes.values():
                stack.enter_context(contextlib.closing(one))
            stack.callback(self._stopped.set)
            while True:
                for lane in range(self._lanes):
                    yield next(lanes[lane]) if lane in lanes else OTHER_RANKS_BATCH

    def _lane(self, lane: int, place: Path, pool: ThreadPoolExecutor) -> Generator[Batch, None, None]:
        turn, window, batch = self._next[lane]
        current = pool.submit(self._open, lane, turn, place)
        following: Future[Pack] | None = None
        try:
            while True:
                with _naming(self._shard(lane, turn), place / f"{lane}-{turn}"):
                    batches = self._make(current.result(), self._seed_of(lane, turn), self._lanes)
                    following = pool.submit(self._open, lane, turn + 1, place)
                    batches.seek({"epoch": 0, "window": window, "batch": batch})
                    with contextlib.closing(iter(batches)) as stream:
                        for made in stream:
                            at = batches.cursor()
                            self._next[lane] = (turn + 1, 0, 0) if at["epoch"] else (turn, at["window"], at["batch"])
                            yield made
                            if at["epoch"]:
                                break
                shutil.rmtree(place / f"{lane}-{turn}", ignore_errors=True)
                current, following = following, None
                turn, window, batch = turn + 1, 0, 0
        finally:
            for opening in filter(None, (current, following)):
                if not opening.cancel():
                    with contextlib.suppress(Exception, CancelledError):
                        opening.result().stop()

    def _shard(self, lane: int, turn: int) -> Shard:
        own = range(lane, len(self._shards), self._lanes)
        epoch, at = divmod(turn, len(own))
        return self._shards[own[int(permuted(np.array([at]), len(own), self._seed, 2, lane, epoch)[0])]]

    def _seed_of(self, lane: int, turn: int) -> int:
        return int(np.random.default_rng([self._seed, lane, turn]).integers(2**31))

    def _open(self, lane: int, turn: int, place: Path) -> Pack:
        shard, folder = self._shard(lane, turn), place / f"{lane}-{turn}"
        sides = [(url, folder / side) for url, side in zip(shard, ("source", "target")) if url]
        for _, side in sides:
            side.mkdir(parents=True)
        with _naming(shard, folder):
            return self._read(folder / "pack", [fetch(url, side, self._stopped) for url, side in sides], self._stopped)


@contextlib.contextmanager
def _naming(shard: Shard, folder: Path) -> Iterator[None]:
    """A mistake in the text is told with the URL in place of the copy, of which nobody knows."""
    try:
        yield
    except UserError as error:
        text = str(error)
        for url, side in zip(shard, ("source", "target")):
            text = text.replace(str(folder / side / url.rpartition("/")[2]), url)
        named = any(url and url in text for url in shard)
        raise UserError(text if named else f"{shard.source}: {text}") from None
