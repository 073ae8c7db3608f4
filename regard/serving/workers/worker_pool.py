"""Between many clients and few models: a bounded queue, batches made of what waits, and workers that are replaced.

Sentences of all requests wait together (job_queue.py); whenever a worker is free it gets the next batch. A watchdog
replaces workers that hang. How the texts of a request become sentences is not known here (translating.py), nor is HTTP.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict
from typing import Any

from regard.errors import UserError
from regard.serving.catalogue import Catalogue
from regard.serving.log import log_error
from regard.serving.settings import Settings
from regard.serving.workers.job_queue import Job, JobQueue, Pace
from regard.serving.workers.messages import Search, Translated, check_weights, join, joined_weights
from regard.serving.workers.worker_process import OVERLONG, Worker, WorkerLost, cores, on_gpu

QUIET, PATIENCE = 0.004, 0.025
"""Seconds: a batch is begun when for so long nothing more arrived, and its first sentence waits no longer than that."""
ON_CPU, ON_GPU = (32, 4000), (256, 40_000)
"""Sentences and characters that go together. More would not fit a CPU's cache, and keep the first one waiting."""
MOST_WORKERS = 4
"""On a CPU, unless more are asked for: each holds all models."""
TRIES = 2
"""How often a job may bring its worker down. Those that were under way beside it are each tried again alone."""
LONG = 400
"""Characters of a text that a worker is asked to cut into parts first: each part then takes its own turn in the queue,
so that a book does not hold a worker, and what of it nobody waits for any more is dropped there."""
PING_INTERVAL, MAX_UNANSWERED = 2.0, 5
"""Seconds between two pings of a worker, and how many it may leave unanswered: then it is killed and replaced."""
CANCEL_DEADLINE = 15.0
"""Seconds within which a worker must stop computing what was cancelled: else it is killed and replaced."""
MAX_ATTEMPTS, FIRST_BACKOFF, MAX_BACKOFF = 5, 1.0, 30.0
"""A lost worker is started again with exponential backoff, in seconds. When every worker failed so many times in a row,
the server exits, for a supervisor to restart it."""


class Busy(Exception):
    """The queue is full, or the wait would be too long."""

    def __init__(self, retry_after: float):
        self.retry_after = max(1, math.ceil(retry_after))
        super().__init__(f"The server is busy; try again in {self.retry_after} s")


class Failed(Exception):
    """It could not be done: memory did not suffice, or a worker was lost over it. The next request may well succeed."""


class Refused(Exception):
    """The model cannot do what is asked, and says why in one line."""


class Engine:
    """What the HTTP side sees of the models. Everything here runs in one event loop; nothing here computes."""

    def __init__(self, settings: Settings, catalogue: Catalogue, note: Callable[[str], None] = lambda line: None):
        self.settings, self.catalogue, self.note = settings, catalogue, note
        self.broken = asyncio.Event()
        """Set when workers can no longer be had."""
        self.batches = 0
        self.batched = 0
        """Batches that were handed out, and the sentences in them."""
        self._workers: list[Worker] = []
        self._idle: list[Worker] = []
        self._most_sentences, most_characters = ON_GPU if on_gpu(settings.device) else ON_CPU
        self._queue = JobQueue(self._most_sentences, most_characters)
        self._window = 4 * self._most_sentences
        """Jobs that one request may have in the queue: a book does not fill it, and others still find room."""
        self._last_arrival = 0.0
        self._pace = Pace()
        self._kept = Kept(settings.translation_cache)
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False

    @property
    def ready(self) -> bool:
        """Whether a worker is there and responds: half of what the watchdog allows is too late already."""
        return any(
            worker.alive and worker.unanswered <= MAX_UNANSWERED // 2 and worker.unwanted() <= CANCEL_DEADLINE / 2
            for worker in self._workers
        )

    @property
    def stalled(self) -> bool:
        """Whether there are workers, but none that responds."""
        return not self.ready and any(worker.alive for worker in self._workers)

    @property
    def loading(self) -> str:
        """The model that is being loaded."""
        return next((worker.loading for worker in self._workers if worker.loading), "")

    @property
    def failed(self) -> dict[str, str]:
        """Models that the server does without, each with the reason."""
        return {name: why for worker in self._workers for name, why in worker.failed.items()}

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def workers(self) -> list[Worker]:
        return list(self._workers)

    async def start(self) -> None:
        """Raises a UserError where the models cannot be loaded."""
        count = self.settings.workers or (1 if on_gpu(self.settings.device) else min(cores(), MOST_WORKERS))
        threads = self.settings.threads or max(1, cores() // count)
        hired = [Worker(self.settings, self.catalogue, threads) for _ in range(count)]
        self._workers = hired
        starting = [asyncio.create_task(worker.start()) for worker in hired]
        try:
            await asyncio.gather(*starting)
        except BaseException as error:
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            await asyncio.gather(*(worker.stop() for worker in hired), return_exceptions=True)
            if isinstance(error, WorkerLost):
                raise UserError(f"a worker ended while it was starting ({error}); is there enough memory?") from None
            if isinstance(error, OSError):
                raise UserError(f"a worker process could not be started ({error.strerror or error})") from None
            raise
        self._idle = list(hired)
        for work in (*map(self._listen, hired), self._dispatch(), self._watch()):
            task = asyncio.create_task(work)
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """None of the engine's tasks may die unnoticed: without it requests would wait for ever."""
        if not task.cancelled() and (error := task.exception()):
            log_error("engine", error)
            self.broken.set()

    async def close(self) -> None:
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(worker.stop() for worker in self._workers))
        for job in self._queue.clear():
            _settle(job, error=Failed("The server is stopping"))

    # What is asked.

    async def translate(self, model: str, sentences: Sequence[str], how: Search, owner: str = "") -> list[Translated]:
        """One result a text, in order. `owner` sees only what was kept for the same owner."""
        parts = await self._parts(model, list(dict.fromkeys(sentences)))
        found = await self._translate_parts(model, [part for text in sentences for part in parts[text]], how, owner)
        texts = [[found[part] for part in parts[text]] for text in sentences]
        check_weights(sum(map(joined_weights, texts)))
        return [join(parts[text], each, how) for text, each in zip(sentences, texts, strict=True)]

    async def _parts(self, model: str, texts: list[str]) -> dict[str, list[str]]:
        """What each text is translated as: itself, or what a worker cuts a long one into."""
        long = [text for text in texts if len(text) > LONG]
        cut = await self._done([Job(("cut", model, None), text, self._future(), len(text) // 20) for text in long])
        return {text: [text] for text in texts} | dict(zip(long, cut, strict=True))

    async def _translate_parts(
        self, model: str, parts: Sequence[str], how: Search, owner: str
    ) -> dict[str, Translated]:
        keys = [(owner, model, how, part) for part in dict.fromkeys(parts)]  # the same part twice is computed once
        known = {key: kept for key in keys if (kept := self._kept.get(key))}
        wanted = [key for key in keys if key not in known]
        kind = ("translate", model, how)
        self._admit(len(wanted))
        for start in range(0, len(wanted), self._window):
            some = wanted[start : start + self._window]
            jobs = [Job(kind, key[-1], self._future(), int((20 + len(key[-1])) * how.effort())) for key in some]
            for key, tree in zip(some, await self._done(jobs, admitted=True), strict=True):
                known[key] = tree
                self._kept.put(key, tree)
        return {key[-1]: Translated.from_tree(known[key]) for key in keys}

    async def ask(self, model: str, task: str, request: dict[str, Any], family: str = "tasks") -> dict[str, Any]:
        """`family` is the folder whose file answers (worker.FAMILIES): tasks, or the studio's questions."""
        return (await self._done([Job(("ask", model, (family, task)), request, self._future(), 500)]))[0]

    async def stream(self, model: str, task: str, request: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        parts: asyncio.Queue[Any] = asyncio.Queue()
        job = Job(("stream", model, ("tasks", task)), request, self._future(), 500, parts=parts)
        waiting = asyncio.create_task(self._done([job]))
        waiting.add_done_callback(lambda _: parts.put_nowait(None))
        try:
            while (part := await parts.get()) is not None:
                yield part
            await waiting
        finally:
            waiting.cancel()

    def _future(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    async def _done(self, jobs: list[Job], admitted: bool = False) -> list[Any]:
        """Waits for all of a request's jobs. If one fails or the waiting is cancelled, the rest is taken back."""
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
            self._take_back(jobs)

    def refuse_if_busy(self, jobs: int = 1) -> None:
        """Raises Busy where so many more would not fit or would wait too long; costs nothing, so it can be asked before
        any work is put into a request."""
        limit, expected = self.settings.queue_limit, self._pace.seconds(self._queue.size_of_a_round())
        # What would never fit is not refused because of others (see _admit).
        if 0 <= limit < self.waiting + min(jobs, limit, self._window) or expected > self.settings.wait_limit:
            raise Busy(min(expected, 600.0))

    def _admit(self, jobs: int) -> None:
        limit = self.settings.queue_limit
        if 0 <= limit < jobs:
            raise Refused(f"The text has {jobs} sentences, more than this server takes at once ({limit})")
        if jobs:
            self.refuse_if_busy(jobs)

    def _take_back(self, jobs: list[Job]) -> None:
        """What of it is still waiting or being computed is no longer wanted."""
        self._queue.remove(jobs)
        for job in jobs:
            if job.place:
                worker, batch, item = job.place
                worker.cancel(batch, item)
            job.future.cancel()

    # Who does it.

    async def _dispatch(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._idle and self._queue:
                await self._gather_more()
                if self._idle and self._queue:
                    self._hand_out()

    async def _gather_more(self) -> None:
        """Gives what arrives at the same time the chance to go together."""
        while (job := self._queue.next()) is not None:
            now = time.monotonic()
            wait = min(self._last_arrival + QUIET, job.since + PATIENCE) - now
            if wait <= 0 or self.waiting >= self._most_sentences * len(self._idle) or job.tries:
                return
            await asyncio.sleep(wait)

    def _hand_out(self) -> None:
        chosen = self._queue.take_batch(len(self._idle))
        worker = self._idle.pop(0)
        for item, job in enumerate(chosen):
            job.place = (worker, worker.next_id, item)
        do, model, how = chosen[0].kind
        message: dict[str, Any] = {"do": do, "model": model}
        if do == "cut":
            message |= {"texts": [job.content for job in chosen]}
        elif do == "translate":
            message |= {"texts": [job.content for job in chosen], "how": asdict(how)}
            self.batches, self.batched = self.batches + 1, self.batched + len(chosen)
        else:
            message |= {"family": how[0], "task": how[1], "request": chosen[0].content}
        worker.give(message, chosen)

    async def _listen(self, worker: Worker) -> None:
        """Hands out what a worker answers; when it is lost, hires another in its place."""
        while not self._closing:
            try:
                async for message in worker.messages():
                    self._received(worker, message)
            except WorkerLost:
                pass
            if self._closing:
                return
            self.note(f"a worker was lost ({worker.fate()}) with {len(worker.held)} jobs; another is started")
            if worker in self._idle:
                self._idle.remove(worker)
            if worker.held:  # a job brought it down: no reason to wait
                worker.attempts = 0
            self._put_back(worker)
            await self._start_again(worker)
            self._idle.append(worker)
            self._changed.set()

    async def _start_again(self, worker: Worker) -> None:
        """Tries until it succeeds. Whatever goes wrong is a failed attempt: no process, no file descriptor, no memory,
        a model that is being copied just now. So is a worker that ended before it did anything."""
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

    async def _watch(self) -> None:
        """The watchdog: kills workers that hang. `_listen` then finds them lost, and replaces them."""
        while True:
            await asyncio.sleep(PING_INTERVAL)
            for worker in [worker for worker in self._workers if worker.alive]:
                if worker.unanswered >= MAX_UNANSWERED:
                    self.note(f"a worker did not answer {worker.unanswered} pings and is killed")
                    worker.kill()
                elif worker.unwanted() > CANCEL_DEADLINE:
                    self.note(f"a worker did not stop within {CANCEL_DEADLINE:g} s of being told to and is killed")
                    worker.kill()
                else:
                    worker.ping()

    def _put_back(self, worker: Worker) -> None:
        """Jobs that a lost worker held wait again, first in line; one that did it twice fails."""
        for job in reversed(worker.held):
            job.place = None
            job.tries += 1
            if job.future.done():
                continue
            if job.tries >= TRIES or job.parts:
                _settle(job, error=Failed("The server could not finish this request"))
                continue
            self._queue.add([job], first=True)
        worker.held = []

    def _received(self, worker: Worker, message: dict[str, Any]) -> None:
        worker.attempts = 0
        jobs = worker.held
        if "pong" in message or not jobs:
            return
        if message is OVERLONG:
            message = {"kind": "refused", "error": "The answer is too long; ask for less at once"}
            if jobs[0].parts is not None:  # one part of a stream was: the worker goes on until it hears of the end
                return _settle(jobs[0], _error(message))
        if "part" in message:
            if (parts := jobs[0].parts) is not None:
                parts.put_nowait(message["part"])
            return
        if jobs[0].kind[0] != "cut" and not any(job.future.done() for job in jobs):  # cancelled ones end early
            self._pace.saw(sum(job.size for job in jobs), worker.took(), len(self._workers))
        worker.held = []
        self._idle.append(worker)
        self._changed.set()
        for job, answer in zip(jobs, _answers(message, len(jobs)), strict=True):
            job.place = None
            if isinstance(answer, Exception):
                _settle(job, error=answer)
            elif not job.future.done():
                job.future.set_result(answer)


def _settle(job: Job, error: Exception) -> None:
    if not job.future.done():
        job.future.set_exception(error)


def _answers(message: dict[str, Any], count: int) -> list[Any]:
    """What a worker's message says of each of its jobs: an answer or an exception."""
    if "error" in message:
        return [_error(message)] * count
    found = message["answer"]
    if not isinstance(found, list):
        return [found]
    return [_error(one) if isinstance(one, dict) and "error" in one else one for one in found]


def _error(tree: dict[str, Any]) -> Exception:
    return Refused(tree["error"]) if tree["kind"] == "refused" else Failed(tree["error"])


class Kept:
    """The latest translations, at most so many; a key is made of all that a translation depends on."""

    def __init__(self, most: int):
        self.most = most
        self._found: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: tuple[Any, ...]) -> Any:
        if key in self._found:
            self._found.move_to_end(key)
        return self._found.get(key)

    def put(self, key: tuple[Any, ...], value: Any) -> None:
        if self.most > 0:
            self._found[key] = value
            self._found.move_to_end(key)
            while len(self._found) > self.most:
                self._found.popitem(last=False)
