"""When the jobs of a request waited and ran, for whoever traces the request (http/telemetry.py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.serving.workers.job_queue import Job


@dataclass(frozen=True)
class BatchTimes:
    """A batch from the point of view of one request. Times are those of time.monotonic()."""

    action: str
    model: str
    jobs: int
    """Of this request."""
    batch_size: int
    """Jobs of all requests."""
    worker: int
    """Process id."""
    queued: float
    started: float
    ended: float


listener: ContextVar[Callable[[BatchTimes], None] | None] = ContextVar("listener", default=None)
"""Set by a request's task, which the pool's methods are called from; None while nothing is traced."""


def report(jobs: Sequence[Job]) -> None:
    """Tells the listener when those of a request's jobs that were started ran."""
    if (tell := listener.get()) is None:
        return
    batches: dict[tuple[int, int], list[Job]] = {}
    for job in jobs:
        if job.batch:
            batches.setdefault(job.batch[:2], []).append(job)
    for (worker, _), some in batches.items():
        action, model = some[0].batch_key[:2]
        ended = max(job.ended_at or time.monotonic() for job in some)
        started = some[0].started_at
        queued = min(job.queued_at for job in some)
        assert some[0].batch
        tell(BatchTimes(action, model, len(some), some[0].batch[2], worker, queued, started, ended))
