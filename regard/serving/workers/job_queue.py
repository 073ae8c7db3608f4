"""What waits for a worker: jobs by request. Requests take turns, so that a book does not keep a sentence waiting, and
what goes together into a batch is of like length."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.serving.workers.worker_process import Worker

BATCHED = ("translate", "cut")
"""What is done to many texts at once; anything else is a batch by itself."""


@dataclass(eq=False)
class Job:
    """What a worker is given as one: a sentence, or a request for another task."""

    kind: tuple[Any, ...]
    """What is done, by which model, how. Jobs of one kind go together."""
    content: Any
    future: asyncio.Future[Any]
    size: int = 1
    tries: int = 0
    since: float = field(default_factory=time.monotonic)
    parts: asyncio.Queue[Any] | None = None
    """Where parts of the answer go as they are made."""
    turn: int = 0
    """The entry of the queue that it waits in: jobs of one request share it."""
    place: tuple[Worker, int, int] | None = None
    """At whom, in which batch, at which place in it."""


class JobQueue:
    """A batch has at most `most_sentences` jobs of together `most_characters`."""

    def __init__(self, most_sentences: int, most_characters: int):
        self._most_sentences, self._most_characters = most_sentences, most_characters
        self._turn_size = most_characters // 3
        """Characters of one request that go into a batch while others wait."""
        self._waiting: OrderedDict[int, deque[Job]] = OrderedDict()
        """By request; the one whose turn it is comes first."""
        self._requests = 0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, jobs: Sequence[Job], first: bool = False) -> None:
        """Jobs of one request: behind all others, or before them."""
        self._requests += 1
        for job in jobs:
            job.turn = self._requests
        self._waiting[self._requests] = deque(jobs)
        if first:
            self._waiting.move_to_end(self._requests, last=False)

    def remove(self, jobs: Sequence[Job]) -> None:
        """The requests that these jobs belong to."""
        for turn in {job.turn for job in jobs}:
            self._waiting.pop(turn, None)

    def clear(self) -> list[Job]:
        """All that waited."""
        left = [job for jobs in self._waiting.values() for job in jobs]
        self._waiting.clear()
        return left

    def next(self) -> Job | None:
        return next((jobs[0] for jobs in self._waiting.values()), None)

    def size_of_a_round(self) -> int:
        """What is computed before a new request has its turn."""
        return sum(min(sum(job.size for job in jobs), self._turn_size) for jobs in self._waiting.values())

    def take_batch(self, idle: int) -> list[Job]:
        """The next job and what may go with it, one of each request in turn; of more than fit, those of like length.
        So many workers are idle, and share what there is."""
        first = self.next()
        assert first is not None
        alone = first.kind[0] not in BATCHED or first.tries > 0
        others = [] if alone else [job for job in self._alike(first) if job is not first]
        share = min(self._most_sentences, -(-(len(others) + 1) // idle))
        if len(others) + 1 > share:
            others.sort(key=lambda job: abs(job.size - first.size))
        chosen, sizes = [first], Counter({first.turn: first.size})
        for job in others:
            if len(chosen) == share or sizes.total() + job.size > self._most_characters:
                break
            if len(self._waiting) > 1 and sizes[job.turn] + job.size > self._turn_size:
                continue  # others wait
            chosen.append(job)
            sizes[job.turn] += job.size
        for job in chosen:
            self._waiting[job.turn].remove(job)
            self._waiting.move_to_end(job.turn)  # its turn is over
            if not self._waiting[job.turn]:
                del self._waiting[job.turn]
        return chosen

    def _alike(self, first: Job) -> list[Job]:
        """Jobs of the same kind, the first of each request, then the second of each, and so on."""
        found: list[Job] = []
        for depth in range(self._most_sentences):
            row = [jobs[depth] for jobs in self._waiting.values() if len(jobs) > depth]
            row = [job for job in row if job.kind == first.kind and not job.tries]
            if not row or len(found) >= 4 * self._most_sentences:
                break
            found += row
        return found


class Pace:
    """How fast jobs are done, of late: sizes and seconds are summed, so that a small batch counts for little."""

    def __init__(self) -> None:
        self._size = self._seconds = 0.0

    def saw(self, size: int, seconds: float, workers: int) -> None:
        self._size = 0.8 * self._size + size * workers
        self._seconds = 0.8 * self._seconds + max(seconds, 1e-3)

    def seconds(self, size: int) -> float:
        """That all workers together need for so much."""
        return size * self._seconds / self._size if self._size else 0.0
