"""The queue in front of the workers, grouped by request.

Requests take turns, so a short one does not wait for a book; a batch holds texts of similar length.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.serving.workers.worker_process import WorkerProcess

BATCHED_ACTIONS = ("translate", "split")
"""Actions that take many texts at once; every other job is a batch of its own."""


@dataclass(eq=False)
class Job:
    """The unit of work: one sentence, or one request for another task."""

    batch_key: tuple[Any, ...]
    """(action, model, options). Jobs with equal keys may share a batch."""
    content: Any
    future: asyncio.Future[Any]
    size: int = 1
    """Estimated cost, in characters."""
    n_best: int = 1
    """How many translations of a sentence are wanted."""
    crashes: int = 0
    """How many workers died while they ran it."""
    queued_at: float = field(default_factory=time.monotonic)
    parts: asyncio.Queue[Any] | None = None
    """Receives the parts of a streamed answer."""
    request: int = 0
    """Number of the request that it belongs to, set by the queue."""
    assignment: tuple[WorkerProcess, int, int] | None = None
    """The worker, the batch id and the index in the batch, while it runs."""
    batch: tuple[int, int, int] | None = None
    """The worker's process id, the batch id and the size of the batch, once it was started."""
    started_at: float = 0.0
    ended_at: float = 0.0


class JobQueue:
    """A batch has at most `max_sentences` jobs and `max_characters` characters."""

    def __init__(self, max_sentences: int, max_characters: int):
        self._max_sentences, self._max_characters = max_sentences, max_characters
        self._turn_size = max_characters // 3
        """Characters of one request in a batch while other requests wait."""
        self._waiting: OrderedDict[int, deque[Job]] = OrderedDict()
        """Jobs by request; the request whose turn is next comes first."""
        self._requests = 0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, jobs: Sequence[Job], first: bool = False) -> None:
        """Enqueues the jobs of one request, at the end or at the front."""
        self._requests += 1
        for job in jobs:
            job.request = self._requests
        self._waiting[self._requests] = deque(jobs)
        if first:
            self._waiting.move_to_end(self._requests, last=False)

    def remove(self, jobs: Sequence[Job]) -> None:
        """Removes the requests that these jobs belong to."""
        for request in {job.request for job in jobs}:
            self._waiting.pop(request, None)

    def clear(self) -> list[Job]:
        """Empties the queue and returns the jobs that were in it."""
        left = [job for jobs in self._waiting.values() for job in jobs]
        self._waiting.clear()
        return left

    def next(self) -> Job | None:
        return next((jobs[0] for jobs in self._waiting.values()), None)

    def round_size(self) -> int:
        """Characters that are processed before a new request gets its first turn."""
        return sum(min(sum(job.size for job in jobs), self._turn_size) for jobs in self._waiting.values())

    def take_batch(self, idle: int) -> list[Job]:
        """Dequeues the next job and others that can share its batch, round-robin over requests.

        If more are waiting than fit, those of similar length are preferred. `idle` workers share what is waiting.
        """
        first = self.next()
        assert first is not None
        alone = first.batch_key[0] not in BATCHED_ACTIONS or first.crashes > 0
        others = [] if alone else [job for job in self._compatible(first) if job is not first]
        share = min(self._max_sentences, -(-(len(others) + 1) // idle))
        if len(others) + 1 > share:
            others.sort(key=lambda job: abs(job.size - first.size))
        chosen, sizes = [first], Counter({first.request: first.size})
        for job in others:
            if len(chosen) == share or sizes.total() + job.size > self._max_characters:
                break
            if len(self._waiting) > 1 and sizes[job.request] + job.size > self._turn_size:
                continue  # other requests are waiting
            chosen.append(job)
            sizes[job.request] += job.size
        for job in chosen:
            self._waiting[job.request].remove(job)
            self._waiting.move_to_end(job.request)  # its turn is over
            if not self._waiting[job.request]:
                del self._waiting[job.request]
        return chosen

    def _compatible(self, first: Job) -> list[Job]:
        """Jobs with the same batch key: the first of each request, then the second of each, and so on."""
        found: list[Job] = []
        for depth in range(self._max_sentences):
            row = [jobs[depth] for jobs in self._waiting.values() if len(jobs) > depth]
            row = [job for job in row if job.batch_key == first.batch_key and not job.crashes]
            if not row or len(found) >= 4 * self._max_sentences:
                break
            found += row
        return found


class Throughput:
    """Recent speed as a decaying sum of sizes over a decaying sum of seconds, so small batches weigh little."""

    def __init__(self) -> None:
        self._size = self._seconds = 0.0

    def add(self, size: int, seconds: float, workers: int) -> None:
        self._size = 0.8 * self._size + size * workers
        self._seconds = 0.8 * self._seconds + max(seconds, 1e-3)

    def seconds(self, size: int) -> float:
        """Estimated seconds that all workers together need for `size` characters."""
        return size * self._seconds / self._size if self._size else 0.0
