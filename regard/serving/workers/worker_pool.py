"""The worker pool: a bounded job queue, dynamic batching, and a supervisor that restarts dead workers.

Sentences of all requests wait in one queue (job_queue.py); a worker that becomes free gets the next batch. A watchdog
kills workers that hang. The pool knows neither HTTP nor how a text is split into sentences (text/translator.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from regard.errors import UserError
from regard.glossary import Glossary
from regard.serving.catalogue import Catalogue
from regard.serving.log import log_error
from regard.serving.settings import Settings
from regard.serving.workers import batch_times
from regard.serving.workers.errors import JobFailed, JobRefused, ServerBusy
from regard.serving.workers.job_queue import Job, JobQueue, Throughput
from regard.serving.workers.statistics import PoolStatistics
from regard.serving.workers.translation_cache import TranslationCache
from regard.serving.workers.translation_result import (
    SearchOptions,
    TranslationResult,
    check_attention_size,
    join,
    joined_attention_size,
)
from regard.serving.workers.worker_process import MESSAGE_TOO_LONG, WorkerLost, WorkerProcess, cores, on_gpu

BATCH_QUIET_SECONDS, BATCH_MAX_WAIT = 0.004, 0.025
"""A batch starts when nothing has arrived for the first, or its oldest sentence has waited for the second (seconds)."""
RETURN_SECONDS = 0.015
"""How long a worker that has just answered waits for what the same clients send next (seconds). Without it, their
sentences would not share a batch with those that came meanwhile, and batches would become smaller and smaller."""
CPU_BATCH, GPU_BATCH = (32, 4000), (256, 40_000)
"""Most sentences and characters of a batch. Larger ones overflow a CPU's cache and delay the first sentence."""
MAX_DEFAULT_WORKERS = 4
"""Workers on a CPU unless `--workers` asks for more: each holds all models."""
MAX_CRASHES = 2
"""Workers that a job may crash before it fails. Other jobs of the crashed batches are retried one by one."""
LONG_TEXT = 400
"""Characters above which a worker first splits a text. Each part then queues on its own, so that a book does not block
a worker, and the parts of a cancelled request are dropped in the queue."""
PING_INTERVAL, MAX_UNANSWERED = 2.0, 5
"""Seconds between pings, and how many a worker may leave unanswered before it is killed and replaced."""
CANCEL_DEADLINE = 15.0
"""Seconds that a worker has to stop a cancelled job before it is killed and replaced."""
MAX_ATTEMPTS, FIRST_BACKOFF, MAX_BACKOFF = 5, 1.0, 30.0
"""A lost worker is restarted with exponential backoff (seconds). When every worker has failed MAX_ATTEMPTS times
in a row, the server exits, for a supervisor to restart it."""


class WorkerPool:
    """Runs requests on worker processes. Everything here runs in one event loop; nothing here computes."""

    def __init__(self, settings: Settings, catalogue: Catalogue, note: Callable[[str], None] = lambda line: None):
        self.settings, self.catalogue, self.note = settings, catalogue, note
        self.broken = asyncio.Event()
        """Set when no worker can be started any more."""
        self.statistics = PoolStatistics()
        self._workers: list[WorkerProcess] = []
        self._idle: list[WorkerProcess] = []
        self._max_sentences, max_characters = GPU_BATCH if on_gpu(settings.device) else CPU_BATCH
        self._queue = JobQueue(self._max_sentences, max_characters)
        self._window = 4 * self._max_sentences
        """Jobs that one request may have in the queue, so that a book leaves room for others."""
        self._last_arrival = 0.0
        self._throughput = Throughput()
        self._cache = TranslationCache(settings.translation_cache)
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False

    @property
    def ready(self) -> bool:
        """Whether a worker responds. Half of what the watchdog tolerates already counts as not responding."""
        return any(
            worker.alive
            and worker.unanswered_pings <= MAX_UNANSWERED // 2
            and worker.seconds_since_cancelled() <= CANCEL_DEADLINE / 2
            for worker in self._workers
        )

    @property
    def stalled(self) -> bool:
        """Whether there are workers, but none responds."""
        return not self.ready and any(worker.alive for worker in self._workers)

    @property
    def loading(self) -> str:
        """Name of the model that is being loaded; empty if none is."""
        return next((worker.loading for worker in self._workers if worker.loading), "")

    @property
    def failed(self) -> dict[str, str]:
        """Optional models that could not be loaded, and why."""
        return {name: why for worker in self._workers for name, why in worker.failed_models.items()}

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def workers(self) -> list[WorkerProcess]:
        return list(self._workers)

    @property
    def busy_seconds(self) -> float:
        """Time that workers have spent on batches so far, including those that are running."""
        return self.statistics.busy_seconds + sum(worker.elapsed() for worker in self._workers if worker.jobs)

    async def start(self) -> None:
        """Starts the workers. Raises a UserError if a model cannot be loaded."""
        count = self.settings.workers or (1 if on_gpu(self.settings.device) else min(cores(), MAX_DEFAULT_WORKERS))
        threads = self.settings.threads or max(1, cores() // count)
        workers = [WorkerProcess(self.settings, self.catalogue, threads) for _ in range(count)]
        self._workers = workers
        starting = [asyncio.create_task(worker.start()) for worker in workers]
        try:
            await asyncio.gather(*starting)
        except BaseException as error:
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            await asyncio.gather(*(worker.stop() for worker in workers), return_exceptions=True)
            if isinstance(error, WorkerLost):
                raise UserError(f"a worker ended while it was starting ({error}); is there enough memory?") from None
            if isinstance(error, OSError):
                raise UserError(f"a worker process could not be started ({error.strerror or error})") from None
            raise
        self._idle = list(workers)
        for work in (*map(self._supervise, workers), self._dispatch(), self._watchdog()):
            task = asyncio.create_task(work)
            task.add_done_callback(self._task_ended)
            self._tasks.append(task)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """If one of the pool's tasks crashed, requests would hang: the server has to exit."""
        if not task.cancelled() and (error := task.exception()):
            log_error("pool", error)
            self.broken.set()

    async def close(self) -> None:
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(worker.stop() for worker in self._workers))
        for job in self._queue.clear():
            _fail(job, JobFailed("The server is stopping"))

    # Requests.

    async def translate(
        self, model: str, texts: Sequence[str], search: SearchOptions, owner: str = ""
    ) -> list[TranslationResult]:
        """One result per text, in order. Cached translations are only shared within one `owner`."""
        parts = await self._split(model, list(dict.fromkeys(texts)), search)
        found = await self._translate_parts(model, [part for text in texts for part in parts[text]], search, owner)
        by_text = [[found[part] for part in parts[text]] for text in texts]
        check_attention_size(sum(map(joined_attention_size, by_text)))
        return [join(parts[text], each, search) for text, each in zip(texts, by_text, strict=True)]

    async def _split(self, model: str, texts: list[str], search: SearchOptions) -> dict[str, list[str]]:
        """The parts of each text: itself, or what a worker splits a long one into."""
        long = [text for text in texts if len(text) > LONG_TEXT]
        direction = (search.source, search.target)
        jobs = [Job(("split", model, direction), text, self._future(), len(text) // 20) for text in long]
        return {text: [text] for text in texts} | dict(zip(long, await self._run(jobs), strict=True))

    async def _translate_parts(
        self, model: str, parts: Sequence[str], search: SearchOptions, owner: str
    ) -> dict[str, TranslationResult]:
        # Repeated parts are translated once, and those without terms of the glossary like all others.
        terms = Glossary.of(search.glossary)
        plainly = replace(search, glossary=())
        keys = [
            (owner, model, search if terms.terms and terms.occurring([part]).terms else plainly, part)
            for part in dict.fromkeys(parts)
        ]
        known = {key: cached for key in keys if (cached := self._cache.get(key))}
        missing = [key for key in keys if key not in known]
        self._admit(len(missing))
        for start in range(0, len(missing), self._window):
            some = missing[start : start + self._window]
            cost = search.effort()
            jobs = [
                Job(
                    ("translate", model, self._shared_options(model, options)),
                    text,
                    self._future(),
                    int((20 + len(text)) * cost),
                    search.n_best,
                )
                for *_, options, text in some
            ]
            for key, tree in zip(some, await self._run(jobs, admitted=True), strict=True):
                known[key] = tree
                self._cache.put(key, tree)
        return {key[-1]: TranslationResult.from_tree(known[key]) for key in keys}

    def _shared_options(self, model: str, search: SearchOptions) -> SearchOptions:
        """Options that must be equal in a batch. How many translations are wanted does not matter within the beam: the
        search is the same (sentences with numbers ask for several, text/placeholders.py)."""
        beam = search.beam or self.catalogue.models[model].beam
        return search if search.alignment or search.attention or search.n_best > beam else replace(search, n_best=0)

    async def run_task(self, model: str, task: str, request: dict[str, Any], family: str = "tasks") -> dict[str, Any]:
        """The answer of a task's module. `family` is the folder that the module is in (worker.FAMILIES)."""
        return (await self._run([Job(("run", model, (family, task)), request, self._future(), 500)]))[0]

    async def stream(self, model: str, task: str, request: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The parts of a task's answer as they are computed."""
        parts: asyncio.Queue[Any] = asyncio.Queue()
        job = Job(("stream", model, ("tasks", task)), request, self._future(), 500, parts=parts)
        running = asyncio.create_task(self._run([job]))
        running.add_done_callback(lambda _: parts.put_nowait(None))
        try:
            while (part := await parts.get()) is not None:
                yield part
            await running
        finally:
            running.cancel()

    def _future(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    async def _run(self, jobs: list[Job], admitted: bool = False) -> list[Any]:
        """Queues the jobs of a request and waits for all. If one fails or the caller is cancelled, so is the rest."""
        if not jobs:
            return []
        if not admitted:
            self._admit(len(jobs))
        self._queue.add(jobs)
        self._last_arrival = time.monotonic()
        self._changed.set()
        try:
            return await asyncio.gather(*(job.future for job in jobs))
        finally:
            batch_times.report(jobs)
            self._cancel(jobs)

    def refuse_if_busy(self, jobs: int = 1) -> None:
        """Raises ServerBusy if this many more jobs would not fit or would wait too long. Cheap, so routes call it
        before they do any work."""
        limit, expected = self.settings.queue_limit, self._throughput.seconds(self._queue.round_size())
        # A request larger than the limit is refused for its size (_admit), not because the server is busy.
        if 0 <= limit < self.waiting + min(jobs, limit, self._window) or expected > self.settings.wait_limit:
            raise ServerBusy(min(expected, 600.0))

    def _admit(self, jobs: int) -> None:
        limit = self.settings.queue_limit
        if 0 <= limit < jobs:
            raise JobRefused(f"The text has {jobs} sentences, more than this server takes at once ({limit})")
        if jobs:
            self.refuse_if_busy(jobs)

    def _cancel(self, jobs: list[Job]) -> None:
        """Cancels those of the jobs that are still waiting or running."""
        self._queue.remove(jobs)
        for job in jobs:
            if job.assignment:
                worker, batch, item = job.assignment
                worker.cancel(batch, item)
            job.future.cancel()

    # Workers.

    async def _dispatch(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._idle and self._queue:
                await self._gather_batch()
                if self._idle and self._queue:
                    self._send_batch()

    async def _gather_batch(self) -> None:
        """Waits a few milliseconds, so that sentences that arrive together share a batch."""
        while (job := self._queue.next()) is not None and self._idle:  # the last idle worker may die meanwhile
            now, idle_since = time.monotonic(), self._idle[0].idle_since
            quiet = max(self._last_arrival, idle_since) + BATCH_QUIET_SECONDS
            wait = min(quiet, max(job.queued_at + BATCH_MAX_WAIT, idle_since + RETURN_SECONDS)) - now
            if wait <= 0 or self.waiting >= self._max_sentences * len(self._idle) or job.crashes:
                return
            await asyncio.sleep(wait)

    def _send_batch(self) -> None:
        batch = self._queue.take_batch(len(self._idle))
        worker = self._idle.pop(0)
        now = time.monotonic()
        for item, job in enumerate(batch):
            job.assignment = (worker, worker.next_id, item)
            job.batch, job.started_at = (worker.pid or 0, worker.next_id, len(batch)), now
            self.statistics.waited(now - job.queued_at)
        action, model, options = batch[0].batch_key
        message: dict[str, Any] = {"action": action, "model": model}
        if action == "split":
            message |= {"texts": [job.content for job in batch], "direction": options}
        elif action == "translate":
            search = {**asdict(options), "n_best": [job.n_best for job in batch]}
            message |= {"texts": [job.content for job in batch], "search": search}
            self.statistics.batch_sent(message["texts"])
        else:
            message |= {"family": options[0], "task": options[1], "request": batch[0].content}
        worker.submit(message, batch)

    async def _supervise(self, worker: WorkerProcess) -> None:
        """Reads a worker's messages; when the process dies, requeues its jobs and starts it again."""
        while not self._closing:
            try:
                async for message in worker.messages():
                    self._received(worker, message)
            except WorkerLost:
                pass
            if self._closing:
                return
            self.note(f"a worker was lost ({worker.exit_reason()}) with {len(worker.jobs)} jobs; starting another")
            if worker in self._idle:
                self._idle.remove(worker)
            if worker.jobs:  # a job crashed it: no reason to back off
                worker.attempts = 0
            self._requeue(worker)
            await self._restart(worker)
            self._idle.append(worker)
            self._changed.set()

    async def _restart(self, worker: WorkerProcess) -> None:
        """Retries until the worker runs. Any error is a failed attempt (no process, file descriptor or memory, a model
        that is being copied right now), and so is a worker that died before it did anything."""
        while True:
            if all(other.attempts >= MAX_ATTEMPTS for other in self._workers):
                self.broken.set()
            if worker.attempts:
                await asyncio.sleep(min(FIRST_BACKOFF * 2 ** (worker.attempts - 1), MAX_BACKOFF))
            worker.attempts += 1
            try:
                await worker.start()
                return
            except Exception as error:
                self.note(f"a worker could not be started ({str(error) or type(error).__name__})")
                await worker.stop()

    async def _watchdog(self) -> None:
        """Kills workers that hang; `_supervise` then replaces them."""
        while True:
            await asyncio.sleep(PING_INTERVAL)
            for worker in [worker for worker in self._workers if worker.alive]:
                if worker.unanswered_pings >= MAX_UNANSWERED:
                    self.note(f"a worker did not answer {worker.unanswered_pings} pings and is killed")
                    worker.kill()
                elif worker.seconds_since_cancelled() > CANCEL_DEADLINE:
                    self.note(f"a worker did not stop a cancelled job within {CANCEL_DEADLINE:g} s and is killed")
                    worker.kill()
                else:
                    worker.ping()

    def _requeue(self, worker: WorkerProcess) -> None:
        """Puts the jobs of a dead worker at the front of the queue; a job that killed two workers fails."""
        if worker.jobs:
            self.statistics.busy_seconds += worker.elapsed()
        for job in reversed(worker.jobs):
            job.assignment = None
            job.crashes += 1
            if job.future.done():
                continue
            if job.crashes >= MAX_CRASHES or job.parts:
                _fail(job, JobFailed("The server could not finish this request"))
                continue
            self._queue.add([job], first=True)
        worker.jobs = []

    def _received(self, worker: WorkerProcess, message: dict[str, Any]) -> None:
        worker.attempts = 0
        jobs = worker.jobs
        if "pong" in message or not jobs:
            return
        if message is MESSAGE_TOO_LONG:
            message = {"kind": "refused", "error": "The answer is too long; ask for less at once"}
            if jobs[0].parts is not None:  # a part of a stream: the worker goes on until it is cancelled
                return _fail(jobs[0], _error(message))
        if "part" in message:
            if (parts := jobs[0].parts) is not None:
                parts.put_nowait(message["part"])
                self.statistics.answered(message["part"].get("done"))
            return
        if jobs[0].batch_key[0] != "split" and not any(job.future.done() for job in jobs):  # cancelled ones end early
            self._throughput.add(sum(job.size for job in jobs), worker.elapsed(), len(self._workers))
        self.statistics.busy_seconds += worker.elapsed()
        worker.jobs, worker.idle_since = [], time.monotonic()
        self._idle.append(worker)
        self._changed.set()
        for job, answer in zip(jobs, _answers(message, len(jobs)), strict=True):
            job.assignment, job.ended_at = None, worker.idle_since
            if isinstance(answer, Exception):
                _fail(job, answer)
                continue
            self.statistics.answered(answer)
            if not job.future.done():
                job.future.set_result(answer)


def _fail(job: Job, error: Exception) -> None:
    if not job.future.done():
        job.future.set_exception(error)


def _answers(message: dict[str, Any], count: int) -> list[Any]:
    """An answer or an exception for each job of the batch that the message answers."""
    if "error" in message:
        return [_error(message)] * count
    found = message["answer"]
    if not isinstance(found, list):
        return [found]
    return [_error(one) if isinstance(one, dict) and "error" in one else one for one in found]


def _error(tree: dict[str, Any]) -> Exception:
    return JobRefused(tree["error"]) if tree["kind"] == "refused" else JobFailed(tree["error"])
