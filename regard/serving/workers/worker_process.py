"""A worker process as the pool sees it: its start, its deadlines, and messages to and from it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import platform
import re
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from regard.child_process import child_environment, python_command
from regard.errors import UserError
from regard.serving.catalogue import Catalogue
from regard.serving.settings import MAX_MESSAGE_BYTES, Settings

COMMAND = tuple(python_command("-m", "regard.serving.workers.worker"))
SHUTDOWN_SECONDS = 2.0
"""Seconds that a worker has to exit by itself before it is killed."""
IMPORT_TIMEOUT = 120.0
"""Seconds for a worker's imports, before the first model is loaded; --load-timeout if that is longer."""
MESSAGE_TOO_LONG = {"too_long": True}
"""Stands for a line longer than MAX_MESSAGE_BYTES."""


class WorkerLost(Exception):
    """The process died."""


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def on_gpu(device: str) -> bool:
    """Whether models will run on a GPU, judged without importing torch, which takes seconds."""
    if device == "auto":
        return Path("/dev/nvidia0").exists() or (sys.platform == "darwin" and platform.machine() == "arm64")
    return device.startswith(("cuda", "mps"))


def check_device(device: str) -> None:
    """Raises a UserError at once for a device that a worker would reject after loading."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", device):
        raise UserError(f"device '{device}' is not known; use auto, cpu, cuda, cuda:1 or mps")
    lacks = device.startswith("cuda") and sys.platform == "linux" and not list(Path("/dev").glob("nvidia*"))
    if lacks and not Path("/dev/dxg").exists():  # the GPU in WSL
        raise UserError(f"device '{device}' is not on this machine; use auto or cpu")


class LoadTimeout(Exception):
    """A model was not loaded in time; without a name, the imports before the first one took too long."""

    def __init__(self, model: str, seconds: float):
        self.model = model
        what = f"{model}: was not loaded" if model else "a worker did not start"
        super().__init__(f"{what} within {seconds:g} s; see --load-timeout")


class WorkerProcess:
    """A worker process and the batch that it is running, one at a time."""

    def __init__(self, settings: Settings, catalogue: Catalogue, threads: int):
        self._models = {model.name: str(model.folder) for model in catalogue.models.values()}
        self._load_request: dict[str, Any] = {
            "device": settings.device,
            "precision": settings.precision,
            "engine": settings.engine,
            "threads": threads,
            "memory": settings.worker_memory,
            "warm": settings.warm,
            "optional": [model.name for model in catalogue.models.values() if model.optional],
        }
        self._threads, self._load_timeout = threads, settings.load_timeout
        self._too_slow: dict[str, str] = {}
        self._process: asyncio.subprocess.Process | None = None
        self.jobs: list[Any] = []
        """The jobs of the running batch."""
        self.next_id = 1
        self.idle_since = 0.0
        """When it answered its last batch."""
        self._submitted_at = 0.0
        self._cancelled: set[int] = set()
        """Indices of the cancelled jobs of the running batch."""
        self._all_cancelled_at = math.inf
        self.unanswered_pings = 0
        """Pings since its last message. Not seconds: if the server itself was blocked, the worker is not to blame."""
        self.attempts = 0
        """Restarts since its last message."""
        self.alive = False
        self.loading = ""
        self.failed_models: dict[str, str] = {}

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Returns when the models are loaded. Raises a UserError if the worker cannot load them."""
        threads = str(self._threads)
        self._process = await asyncio.create_subprocess_exec(
            *COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=MAX_MESSAGE_BYTES,
            env=child_environment(OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads),
            start_new_session=True,  # signals to the server's process group must not reach it
        )
        models = {name: folder for name, folder in self._models.items() if name not in self._too_slow}
        self._send({**self._load_request, "models": models})
        try:
            reply = await self._loaded()
        except LoadTimeout as late:
            await self.stop()
            if late.model not in self._load_request["optional"]:
                raise UserError(str(late)) from None
            self._too_slow[late.model] = str(late)
            return await self.start()  # without that model
        finally:
            self.loading = ""
        if "refused" in reply:
            raise UserError(reply["refused"])
        self.failed_models = {**self._too_slow, **reply.get("failed", {})}
        self.alive = True

    async def _loaded(self) -> dict[str, Any]:
        """The worker's message that it is ready or cannot load a model. Each model has its own deadline."""
        model, deadline = "", max(self._load_timeout, IMPORT_TIMEOUT)
        while True:
            try:
                async with asyncio.timeout(deadline):
                    message = await self._read()
            except TimeoutError:
                raise LoadTimeout(model, deadline) from None
            if "loading" in message:
                self.loading = model = message["loading"]
                deadline = self._load_timeout
            elif "importing" in message:
                self.loading = message["importing"]
            else:
                return message

    async def stop(self) -> None:
        self.alive = False
        if not self._process:
            return
        if self._process.stdin:
            self._process.stdin.close()  # tells the worker to exit
        await self._end()

    def submit(self, message: dict[str, Any], jobs: list[Any]) -> None:
        self.jobs, self._submitted_at = jobs, time.monotonic()
        self._cancelled, self._all_cancelled_at = set(), math.inf
        self._send({"id": self.next_id, **message})
        self.next_id += 1

    def cancel(self, batch: int, item: int) -> None:
        self._send({"cancel": batch, "items": [item]})
        self._cancelled.add(item)
        if len(self._cancelled) == len(self.jobs):
            self._all_cancelled_at = min(self._all_cancelled_at, time.monotonic())

    def ping(self) -> None:
        """A healthy worker answers at once, even while it computes."""
        self.unanswered_pings += 1
        self._send({"ping": True})

    def seconds_since_cancelled(self) -> float:
        """Seconds since the whole running batch was cancelled; 0 if it was not."""
        return max(0.0, time.monotonic() - self._all_cancelled_at) if self.jobs else 0.0

    async def _end(self) -> None:
        """Waits for the process to exit and kills it if it does not. (Killing it at once would hide its exit code.)"""
        assert self._process
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), SHUTDOWN_SECONDS)
            return
        self.kill()
        with contextlib.suppress(TimeoutError):  # a process blocked on a dead disk cannot be killed
            await asyncio.wait_for(self._process.wait(), SHUTDOWN_SECONDS)

    def kill(self) -> None:
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    def elapsed(self) -> float:
        """Seconds since the running batch was submitted."""
        return time.monotonic() - self._submitted_at

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        while True:
            yield await self._read()

    def exit_reason(self) -> str:
        code = self._process.returncode if self._process else None
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                return signal.Signals(-code).name
        return f"exit code {code}"

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process and self._process.stdin
        with contextlib.suppress(ConnectionError, RuntimeError):  # the reader notices that it died
            self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> dict[str, Any]:
        assert self._process and self._process.stdout
        try:
            line = await _line(self._process.stdout)
            message = json.loads(line) if line is not None else MESSAGE_TOO_LONG
            self.unanswered_pings = 0
            return message
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):  # ValueError: not JSON
            pass
        self.alive = False
        await self._end()
        raise WorkerLost(self.exit_reason())


async def _line(stream: asyncio.StreamReader) -> bytes | None:
    """The next line; None for a line longer than the stream's limit, which is discarded."""
    dropped = False
    while True:
        try:
            line = await stream.readuntil(b"\n")
            return None if dropped else line
        except asyncio.LimitOverrunError as error:
            await stream.readexactly(error.consumed)
            dropped = True
