"""The process that owns the models: it reads what to do from standard input and answers on standard output.

Both are lines of JSON, so nothing that arrives can be more than data. The first line says which models to load; then
every line is a job (`id`, `do`, ...), cancels one (`cancel`) or is a `ping`. While a job is computed a thread goes on
reading: it cancels, and answers pings. When standard input ends, so does the process: it never outlives its server.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Collection, Iterator
from io import BufferedIOBase
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import IO, Any

from regard import registry
from regard.errors import UserError
from regard.serving.settings import MAX_MESSAGE_BYTES, MEBIBYTE
from regard.serving.workers.messages import check_weights

FAMILIES = {"tasks": "serving/workers/tasks", "questions": "studio/questions"}
"""Folders whose files answer requests. By name: the studio is built on the server, not the other way round."""
"""Where the file is that answers what is asked."""
TOO_MUCH = "The server has not enough memory for this request; ask for less at once"


def _module(job: dict[str, Any]) -> ModuleType:
    return registry.module(FAMILIES[job["family"]], job["task"])


class Abandoned(Exception):
    """Nobody waits for this job any more."""


class AnswerTooLong(UserError):
    """The answer does not fit into one message."""


class Output:
    """Lines of JSON to the server, from any thread."""

    def __init__(self, stream: BufferedIOBase):
        self._stream = stream
        self._lock = threading.Lock()

    def say(self, message: dict[str, Any]) -> None:
        """Raises AnswerTooLong, and writes nothing, where the server would not read that much."""
        line = json.dumps(message).encode() + b"\n"
        if len(line) > MAX_MESSAGE_BYTES:
            raise AnswerTooLong(f"The answer is longer than {MAX_MESSAGE_BYTES // MEBIBYTE} MiB; ask for less")
        with self._lock:
            self._stream.write(line)
            self._stream.flush()


class Jobs:
    """What standard input asks for: jobs in order, and which of them are not wanted any more."""

    def __init__(self, lines: IO[bytes], out: Output):
        self._lines, self._out = lines, out
        self._waiting: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._cancelled: dict[int, set[int]] = {}
        self._now = 0

    def first(self) -> dict[str, Any]:
        """The line that says what to load; the rest is read by a thread from here on."""
        line = self._lines.readline()
        threading.Thread(target=self._read, daemon=True).start()
        return json.loads(line) if line else os._exit(0)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            job = self._waiting.get()
            self._now = job["id"]
            yield job
            self._now += 1  # whoever takes it back now comes too late
            self._cancelled.pop(job["id"], None)

    def _read(self) -> None:
        for line in self._lines:
            message = json.loads(line)
            if "ping" in message:
                self._out.say({"pong": True})
            elif "cancel" not in message:
                self._waiting.put(message)
            elif message["cancel"] >= self._now:  # else it is done already
                self._cancelled.setdefault(message["cancel"], set()).update(message["items"])
        os._exit(0)  # the server is gone, and with it whoever waits for what is being computed

    def gone(self) -> Collection[int]:
        """The items of the present job that nobody waits for."""
        return self._cancelled.get(self._now, ())

    def stop_if_gone(self) -> Collection[int]:
        """The same for a job that is one thing."""
        if self._cancelled.get(self._now):
            raise Abandoned
        return ()


class Worker:
    """Models by name, and how each kind of job is done."""

    def __init__(self, models: dict[str, Any], jobs: Jobs, out: Output):
        self.models, self.jobs, self.out = models, jobs, out

    def run(self) -> None:
        for job in self.jobs:
            try:
                answer = getattr(self, f"_{job['do']}")(job)
            except Abandoned:
                answer = {"kind": "failed", "error": "given up"}
            except UserError as error:
                answer = _refused(error)
            except Exception as error:
                answer = _failure(error)
            try:
                self.out.say({"id": job["id"], **answer})
            except AnswerTooLong as error:
                self.out.say({"id": job["id"], **_shortened(answer, error)})
            except MemoryError as error:
                self.out.say({"id": job["id"], **_failure(error)})

    def _cut(self, job: dict[str, Any]) -> dict[str, Any]:
        """The parts that each text is translated as: its sentences, or less where one is too long for the model."""
        model, texts = self.models[job["model"]], enumerate(job["texts"])
        return {"answer": [[] if item in self.jobs.gone() else model.parts(text) for item, text in texts]}

    def _translate(self, job: dict[str, Any]) -> dict[str, Any]:
        return {"answer": self._together(job, list(range(len(job["texts"]))))}

    def _together(self, job: dict[str, Any], items: list[int]) -> list[dict[str, Any]]:
        """Translations of some of a job's texts. Where memory does not suffice for all at once, half of them at a time:
        one that is too much alone fails alone."""
        how = dict(job["how"])
        wants_attention = how.pop("attention")
        wants_alignment = how.pop("alignment")

        def gone() -> Collection[int]:
            lost = self.jobs.gone()
            return [place for place, item in enumerate(items) if item in lost] if lost else ()

        try:
            found = self.models[job["model"]].translate(
                [job["texts"][item] for item in items], **how, alignment=wants_alignment or wants_attention, gone=gone
            )
        except UserError:
            raise
        except Exception as error:
            failure = _failure(error)
            if len(items) == 1 or failure["kind"] != "memory":
                return [failure for _ in items]
        else:
            return [_answer(one, wants_alignment, wants_attention) for one in found]
        half = len(items) // 2
        return self._together(job, items[:half]) + self._together(job, items[half:])

    def _ask(self, job: dict[str, Any]) -> dict[str, Any]:
        from regard.decoding.abandoning import abandoning

        with abandoning(self.jobs.stop_if_gone):
            return {"answer": _module(job).answer(self.models[job["model"]], job["request"])}

    def _stream(self, job: dict[str, Any]) -> dict[str, Any]:
        for part in _module(job).parts(self.models[job["model"]], job["request"]):
            self.out.say({"id": job["id"], "part": part})
            self.jobs.stop_if_gone()
        return {"answer": None}


def _refused(error: UserError) -> dict[str, Any]:
    return {"kind": "refused", "error": str(error)}


def _shortened(answer: dict[str, Any], error: AnswerTooLong) -> dict[str, Any]:
    """The error in the place of an answer that is too long; in a batch only in the place of those that are."""
    answers = answer.get("answer")
    if not isinstance(answers, list):
        return _refused(error)
    share = MAX_MESSAGE_BYTES // 2 // len(answers)
    return {"answer": [_refused(error) if len(json.dumps(one)) > share else one for one in answers]}


def _answer(found: Any, alignment: bool, attention: bool) -> dict[str, Any]:
    """A translation as it is sent. Attention weights are counted before they are turned into lists."""
    matrices = [one.attention for one in (found, *found.alternatives) if attention and one.attention is not None]
    try:
        check_weights(sum(matrix.numel() for matrix in matrices))
    except UserError as error:
        return _refused(error)
    return _as_tree(found, alignment, attention)


def _as_tree(found: Any, alignment: bool, attention: bool) -> dict[str, Any]:
    return {
        "text": found.text,
        "score": found.score,
        "log_probability": found.log_probability,
        "tokens": found.tokens,
        "finished": found.finished,
        "alignment": found.alignment or [] if alignment else None,
        "attention": [] if attention and found.attention is None else found.attention.tolist() if attention else None,
        "alternatives": [_as_tree(other, alignment, attention) for other in found.alternatives],
    }


def _failure(error: Exception) -> dict[str, Any]:
    from regard.device import is_out_of_memory

    if not is_out_of_memory(error):
        traceback.print_exception(error)
        return {"kind": "failed", "error": "The server could not answer this request"}
    error.__traceback__ = None  # it holds on to what filled the memory
    _give_memory_back()
    return {"kind": "memory", "error": TOO_MUCH}


def _give_memory_back() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def _limit_memory(mebibytes: int) -> None:
    """Lets this process ask for so much more than it has: what is too large then fails, and not the machine."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (mebibytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main() -> None:
    out = Output(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what a library prints must not stand among the answers
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a terminal's Ctrl-C reaches this process too: the server decides
    if hasattr(os, "nice"):
        os.nice(5)  # who answers clients, and says that it is too busy to, must not wait for who computes
    jobs = Jobs(sys.stdin.buffer, out)
    wanted = jobs.first()
    worker = Worker({}, jobs, out)
    try:
        failed = _load(worker, wanted)
    except UserError as error:
        out.say({"refused": str(error)})
        return
    if wanted["memory"]:
        _limit_memory(wanted["memory"])
    out.say({"ready": os.getpid(), "failed": failed})
    worker.run()


def _load(worker: Worker, wanted: dict[str, Any]) -> dict[str, str]:
    """Loads the models; why not, of those that are optional and cannot be loaded."""
    failed = {}
    worker.out.say({"importing": next(iter(wanted["models"]), "")})
    from regard import load  # imports torch, which takes seconds: before the first model's deadline begins

    for name, folder in wanted["models"].items():
        worker.out.say({"loading": name})
        try:
            model = load(folder, device=wanted["device"], precision=wanted["precision"])
        except UserError as error:
            if name not in wanted["optional"]:
                raise
            failed[name] = str(error)
            continue
        worker.models[name] = model
        if wanted["warm"] and hasattr(model, "translate"):
            model.translate("a")  # weights are laid out when they are first used: let nobody wait for that
    return failed


if __name__ == "__main__":
    main()
