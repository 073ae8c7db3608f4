"""The worker: a process that owns the models, reads jobs from standard input and answers on standard output.

Messages are lines of JSON, so input is never more than data. The first line says which models to load; each further
line is a job (`id`, `action`, ...), a `cancel` or a `ping`. A thread keeps reading while a job runs: it handles
cancellation and answers pings. The process exits when standard input ends, so it never outlives its server.
"""

from __future__ import annotations

import contextlib
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
from regard.serving.workers.translation_result import check_attention_size

FAMILIES = {
    "tasks": "serving/workers/tasks",
    "interactive": "serving/workers/interactive",
    "questions": "studio/questions",
}
"""Folders with a module per task. Paths, not imports: the studio depends on the server, not the other way round."""
OUT_OF_MEMORY = "The server has not enough memory for this request; ask for less at once"


def _module(job: dict[str, Any]) -> ModuleType:
    return registry.module(FAMILIES[job["family"]], job["task"])


class JobCancelled(Exception):
    """The client of this job has disconnected."""


class MessageTooLong(UserError):
    """The answer does not fit into one message."""


class MessageWriter:
    """Writes messages to the server; thread-safe."""

    def __init__(self, stream: BufferedIOBase):
        self._stream = stream
        self._lock = threading.Lock()

    def write(self, message: dict[str, Any]) -> None:
        """Raises MessageTooLong, and writes nothing, if the server would discard the message."""
        line = json.dumps(message).encode() + b"\n"
        if len(line) > MAX_MESSAGE_BYTES:
            raise MessageTooLong(f"The answer is longer than {MAX_MESSAGE_BYTES // MEBIBYTE} MiB; ask for less")
        with self._lock:
            self._stream.write(line)
            self._stream.flush()


class JobReader:
    """Jobs from standard input, in order, and which of them were cancelled."""

    def __init__(self, lines: IO[bytes], out: MessageWriter):
        self._lines, self._out = lines, out
        self._waiting: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._cancelled: dict[int, set[int]] = {}
        self._running = 0
        """Id of the running job, or of the next one."""

    def first(self) -> dict[str, Any]:
        """Reads the line that says what to load and starts the thread that reads the rest."""
        line = self._lines.readline()
        threading.Thread(target=self._read, daemon=True).start()
        return json.loads(line) if line else os._exit(0)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            job = self._waiting.get()
            self._running = job["id"]
            yield job
            self._running += 1  # from here on a cancellation comes too late
            self._cancelled.pop(job["id"], None)

    def _read(self) -> None:
        for line in self._lines:
            message = json.loads(line)
            if "ping" in message:
                self._out.write({"pong": True})
            elif "cancel" not in message:
                self._waiting.put(message)
            elif message["cancel"] >= self._running:  # else it is already done
                self._cancelled.setdefault(message["cancel"], set()).update(message["items"])
        os._exit(0)  # the server has exited: no one needs the running job

    def cancelled(self) -> Collection[int]:
        """Indices of the running job's texts that were cancelled."""
        return self._cancelled.get(self._running, ())

    def raise_if_cancelled(self) -> Collection[int]:
        """For jobs that are not batches: raises JobCancelled, else no index is cancelled."""
        if self._cancelled.get(self._running):
            raise JobCancelled
        return ()


class Worker:
    """Runs jobs on the loaded models."""

    def __init__(self, models: dict[str, Any], jobs: JobReader, out: MessageWriter):
        self.models, self.jobs, self.out = models, jobs, out
        self._actions = {
            "split": self._split,
            "translate": self._translate,
            "run": self._run_task,
            "stream": self._stream,
        }

    def run(self) -> None:
        for job in self.jobs:
            try:
                answer = self._actions[job["action"]](job)
            except JobCancelled:
                answer = {"kind": "failed", "error": "cancelled"}
            except UserError as error:
                answer = _refused(error)
            except Exception as error:
                answer = _failure(error)
            try:
                self.out.write({"id": job["id"], **answer})
            except MessageTooLong as error:
                self.out.write({"id": job["id"], **_shortened(answer, error)})
            except MemoryError as error:
                self.out.write({"id": job["id"], **_failure(error)})

    def _split(self, job: dict[str, Any]) -> dict[str, Any]:
        """Splits each text into sentences, and sentences that are too long for the model into smaller parts."""
        model, texts = self.models[job["model"]], enumerate(job["texts"])
        source, target = job["direction"]
        told = {"told": model.marks([""], source, target)[0]} if source and target else {}
        return {"answer": [[] if item in self.jobs.cancelled() else model.parts(text, **told) for item, text in texts]}

    def _translate(self, job: dict[str, Any]) -> dict[str, Any]:
        """Several translations of a text cost torch more time, and CTranslate2 none: it then takes all at once."""
        n_best = job["search"]["n_best"]
        together = getattr(self.models[job["model"]], "engine", "") == "ctranslate2"
        answers: dict[int, dict[str, Any]] = {}
        for wanted in [max(n_best)] if together else sorted(set(n_best)):
            items = [item for item, count in enumerate(n_best) if together or count == wanted]
            answers |= zip(items, self._translate_items(job, items, wanted), strict=True)
        return {"answer": [answers[item] for item in range(len(n_best))]}

    def _translate_items(self, job: dict[str, Any], items: list[int], n_best: int) -> list[dict[str, Any]]:
        """Translates some of a job's texts. When memory runs out the batch is halved, so that only a text that is too
        large by itself fails."""
        search = {name: value for name, value in job["search"].items() if value is not None} | {"n_best": n_best}
        attention = search.pop("attention")
        alignment = search.pop("alignment")
        doubt = search["doubt"]
        if rows := search.pop("glossary", ()):
            from regard.glossary import Glossary

            search["glossary"] = Glossary.of(rows)

        def cancelled() -> Collection[int]:
            found = self.jobs.cancelled()
            return [index for index, item in enumerate(items) if item in found] if found else ()

        model = self.models[job["model"]]
        if attention and getattr(model, "engine", "") == "ctranslate2":
            model = model.with_torch()  # CTranslate2 has the attention of one layer only
        try:
            found = model.translate(
                [job["texts"][item] for item in items], **search, alignment=alignment or attention, cancelled=cancelled
            )
        except UserError:
            raise
        except Exception as error:
            failure = _failure(error)
            if len(items) == 1 or failure["kind"] != "memory":
                return [failure for _ in items]
        else:
            wanted = [job["search"]["n_best"][item] for item in items]
            for one, count in zip(found, wanted, strict=True):
                del one.alternatives[count - 1 :]
            return [_answer(one, alignment, attention, doubt) for one in found]
        half = len(items) // 2
        return self._translate_items(job, items[:half], n_best) + self._translate_items(job, items[half:], n_best)

    def _run_task(self, job: dict[str, Any]) -> dict[str, Any]:
        from regard.decoding.cancellation import cancellation

        with cancellation(self.jobs.raise_if_cancelled):
            return {"answer": _module(job).answer(self.models[job["model"]], job["request"])}

    def _stream(self, job: dict[str, Any]) -> dict[str, Any]:
        for part in _module(job).parts(self.models[job["model"]], job["request"]):
            self.out.write({"id": job["id"], "part": part})
            self.jobs.raise_if_cancelled()
        return {"answer": None}


def _refused(error: UserError) -> dict[str, Any]:
    return {"kind": "refused", "error": str(error)}


def _shortened(answer: dict[str, Any], error: MessageTooLong) -> dict[str, Any]:
    """Replaces an answer that is too long by the error; in a batch, only the answers that are."""
    answers = answer.get("answer")
    if not isinstance(answers, list):
        return _refused(error)
    share = MAX_MESSAGE_BYTES // 2 // len(answers)
    return {"answer": [_refused(error) if len(json.dumps(one)) > share else one for one in answers]}


def _answer(found: Any, alignment: bool, attention: bool, doubt: bool = False) -> dict[str, Any]:
    """A translation as JSON. Attention weights are counted before they become lists."""
    matrices = [one.attention for one in (found, *found.alternatives) if attention and one.attention is not None]
    try:
        check_attention_size(sum(matrix.size for matrix in matrices))
    except UserError as error:
        return _refused(error)
    return _as_tree(found, alignment, attention, doubt)


def _as_tree(found: Any, alignment: bool, attention: bool, doubt: bool = False) -> dict[str, Any]:
    return {
        "text": found.text,
        "score": found.score,
        "log_probability": found.log_probability,
        "tokens": found.tokens,
        "finished": found.finished,
        "alignment": found.alignment or [] if alignment else None,
        "attention": [] if attention and found.attention is None else found.attention.tolist() if attention else None,
        "alternatives": [_as_tree(other, alignment, attention, doubt) for other in found.alternatives],
        "confidence": found.confidence,
        "words": found.words if doubt else None,
        "warnings": found.warnings,
    }


def _failure(error: Exception) -> dict[str, Any]:
    if not _is_out_of_memory(error):
        traceback.print_exception(error)
        return {"kind": "failed", "error": "The server could not answer this request"}
    error.__traceback__ = None  # it keeps the tensors that filled the memory alive
    _release_memory()
    return {"kind": "memory", "error": OUT_OF_MEMORY}


def _is_out_of_memory(error: Exception) -> bool:
    if "torch" not in sys.modules:
        return isinstance(error, MemoryError) or "allocate" in str(error) or "bad_alloc" in str(error)
    from regard.device import is_out_of_memory

    return is_out_of_memory(error)


def _release_memory() -> None:
    gc.collect()
    if (torch := sys.modules.get("torch")) and torch.cuda.is_available():
        torch.cuda.empty_cache()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def _limit_memory(mebibytes: int) -> None:
    """Limits how much more memory this process can allocate, so that a large job fails and not the machine."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (mebibytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    out = MessageWriter(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # keeps the output of libraries out of the messages
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # Ctrl-C in a terminal reaches this process too: the server decides
    if hasattr(os, "nice"):
        os.nice(5)  # the HTTP process must stay responsive while workers compute
    jobs = JobReader(sys.stdin.buffer, out)
    load_request = jobs.first()
    worker = Worker({}, jobs, out)
    try:
        failed = _load(worker, load_request)
    except UserError as error:
        out.write({"refused": str(error)})
        return
    if load_request["memory"]:
        _limit_memory(load_request["memory"])
    out.write({"ready": os.getpid(), "failed": failed})
    worker.run()


def _load(worker: Worker, request: dict[str, Any]) -> dict[str, str]:
    """Loads the models. Returns the optional ones that could not be loaded, and why."""
    failed = {}
    worker.out.write({"importing": next(iter(request["models"]), "")})
    _import_engines(request)
    from regard.engines import load_with

    for name, folder in request["models"].items():
        worker.out.write({"loading": name})
        try:
            model = load_with(
                folder, request["device"], "", request["precision"], request["engine"], threads=request["threads"]
            )
        except UserError as error:
            if name not in request["optional"]:
                raise
            failed[name] = str(error)
            continue
        worker.models[name] = model
        if request["warm"] and model.recipe.task == "translate":
            model.translate("a", **_any_direction(model))  # warm-up: the first translation packs the weights
    return failed


def _any_direction(model: Any) -> dict[str, str]:
    """The options that state a direction of a model with several."""
    from regard.directions import directions, is_multilingual

    if not is_multilingual(model.recipe):
        return {}
    source, target = directions(model.recipe)[0]
    return {"source": source, "target": target}


def _import_engines(request: dict[str, Any]) -> None:
    """Imports torch if a model needs it, which takes seconds, before the first model's deadline starts."""
    from regard.engines import engine_for

    for folder in request["models"].values():
        with contextlib.suppress(UserError):  # loading the model will say it
            if engine_for(folder, request["engine"], request["device"], request["precision"]) == "torch":
                import regard.loading  # noqa: F401

                return


if __name__ == "__main__":
    main()
