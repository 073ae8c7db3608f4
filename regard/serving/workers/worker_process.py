"""A worker process as the engine sees it: started, given jobs, listened to, and replaced when it is lost."""

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
STOPS = 2.0
"""Seconds that a worker is given to end by itself."""


IMPORT_TIMEOUT = 120.0
"""Seconds that a worker's imports may take before the first model is loaded, unless a model may take even longer."""
OVERLONG = {"overlong": True}
"""What is read in the place of a line longer than a message may be."""


class WorkerLost(Exception):
    """The process ended without being told to."""


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def on_gpu(device: str) -> bool:
    """Whether models will be on a GPU, as far as one can tell without torch, whose import takes seconds."""
    if device == "auto":
        return Path("/dev/nvidia0").exists() or (sys.platform == "darwin" and platform.machine() == "arm64")
    return device.startswith(("cuda", "mps"))


def check_device(device: str) -> None:
    """Refuses at once what a worker would refuse after loading."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", device):
        raise UserError(f"device '{device}' is not known; use auto, cpu, cuda, cuda:1 or mps")
    lacks = device.startswith("cuda") and sys.platform == "linux" and not list(Path("/dev").glob("nvidia*"))
    if lacks and not Path("/dev/dxg").exists():  # how Windows' Linux sees a GPU
        raise UserError(f"device '{device}' is not on this machine; use auto or cpu")


class LoadTimeout(Exception):
    """The model that did not load in time; without a name, what is imported before the first."""

    def __init__(self, model: str, seconds: float):
        self.model = model
        what = f"{model}: was not loaded" if model else "a worker did not start"
        super().__init__(f"{what} within {seconds:g} s; see --load-timeout")


class Worker:
    """A process and what it is working on: one message at a time."""

    def __init__(self, settings: Settings, catalogue: Catalogue, threads: int):
        self._models = {model.name: str(model.folder) for model in catalogue.models.values()}
        self._wanted: dict[str, Any] = {
            "device": settings.device,
            "precision": settings.precision,
            "memory": settings.worker_memory,
            "warm": settings.warm,
            "optional": [model.name for model in catalogue.models.values() if model.optional],
        }
        self._threads, self._load_timeout = threads, settings.load_timeout
        self._too_slow: dict[str, str] = {}
        self._process: asyncio.subprocess.Process | None = None
        self.held: list[Any] = []
        """The jobs of the message that is being worked on."""
        self.next_id = 1
        self._given = 0.0
        self._cancelled: set[int] = set()
        """Which of the jobs that it works on were cancelled."""
        self._unwanted_since = math.inf
        """When the last of them was."""
        self.unanswered = 0
        """Pings sent since it was last heard. Not seconds: a server that was held up itself must not blame a worker."""
        self.attempts = 0
        """How often it was started anew since it last did or answered anything."""
        self.alive = False
        self.loading = ""
        self.failed: dict[str, str] = {}

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Returns when the models are loaded. Raises a UserError with what the process says against them."""
        threads = str(self._threads)
        self._process = await asyncio.create_subprocess_exec(
            *COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=MAX_MESSAGE_BYTES,
            env=child_environment(OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads),
            start_new_session=True,  # what a terminal or a service manager sends to the server's group is not for it
        )
        wanted = [name for name in self._models if name not in self._too_slow]
        self._send({**self._wanted, "models": {name: self._models[name] for name in wanted}})
        try:
            said = await self._loaded()
        except LoadTimeout as late:
            await self.stop()
            if late.model not in self._wanted["optional"]:
                raise UserError(str(late)) from None
            self._too_slow[late.model] = str(late)
            return await self.start()  # without it
        finally:
            self.loading = ""
        if "refused" in said:
            raise UserError(said["refused"])
        self.failed = {**self._too_slow, **said.get("failed", {})}
        self.alive = True

    async def _loaded(self) -> dict[str, Any]:
        """The process's word that it is ready, or that it cannot be. Each model has a deadline of its own."""
        model, deadline = "", max(self._load_timeout, IMPORT_TIMEOUT)
        while True:
            try:
                async with asyncio.timeout(deadline):
                    said = await self._read()
            except TimeoutError:
                raise LoadTimeout(model, deadline) from None
            if "loading" in said:
                self.loading = model = said["loading"]
                deadline = self._load_timeout
            elif "importing" in said:
                self.loading = said["importing"]
            else:
                return said

    async def stop(self) -> None:
        self.alive = False
        if not self._process:
            return
        if self._process.stdin:
            self._process.stdin.close()  # the sign to end
        await self._end()

    def give(self, message: dict[str, Any], jobs: list[Any]) -> None:
        self.held, self._given = jobs, time.monotonic()
        self._cancelled, self._unwanted_since = set(), math.inf
        self._send({"id": self.next_id, **message})
        self.next_id += 1

    def cancel(self, batch: int, item: int) -> None:
        self._send({"cancel": batch, "items": [item]})
        self._cancelled.add(item)
        if len(self._cancelled) == len(self.held):
            self._unwanted_since = min(self._unwanted_since, time.monotonic())

    def ping(self) -> None:
        """A live worker answers at once, also while it computes."""
        self.unanswered += 1
        self._send({"ping": True})

    def unwanted(self) -> float:
        """Seconds for which it has been computing what nobody waits for any more."""
        return max(0.0, time.monotonic() - self._unwanted_since) if self.held else 0.0

    async def _end(self) -> None:
        """Waits for the process to end and, if it does not, kills it. (Not before: that would hide how it ended.)"""
        assert self._process
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), STOPS)
            return
        self.kill()
        with contextlib.suppress(TimeoutError):  # one that waits for a dead disk cannot even be killed
            await asyncio.wait_for(self._process.wait(), STOPS)

    def kill(self) -> None:
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    def took(self) -> float:
        """Seconds since the last message was given."""
        return time.monotonic() - self._given

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        while True:
            yield await self._read()

    def fate(self) -> str:
        code = self._process.returncode if self._process else None
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                return signal.Signals(-code).name
        return f"exit code {code}"

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process and self._process.stdin
        with contextlib.suppress(ConnectionError, RuntimeError):  # whoever listens finds out that it is lost
            self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> dict[str, Any]:
        assert self._process and self._process.stdout
        try:
            line = await _line(self._process.stdout)
            message = json.loads(line) if line is not None else OVERLONG
            self.unanswered = 0
            return message
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):  # ValueError: no JSON
            pass
        self.alive = False
        await self._end()
        raise WorkerLost(self.fate())


async def _line(stream: asyncio.StreamReader) -> bytes | None:
    """The next line; None for one that is longer than the stream's limit, which is read to its end and dropped."""
    dropped = False
    while True:
        try:
            line = await stream.readuntil(b"\n")
            return None if dropped else line
        except asyncio.LimitOverrunError as error:
            await stream.readexactly(error.consumed)
            dropped = True
