"""A worker process as the engine sees it: started, given jobs, listened to, and replaced when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
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
from regard.serving.settings import Settings

COMMAND = tuple(python_command("-m", "regard.serving.worker"))
LONGEST = 1 << 26
"""Bytes of one message; a worker answers nothing longer."""
STOPS = 2.0
"""Seconds that a worker is given to end by itself."""


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
        self._given = self._heard = 0.0
        self._cancelled_at: float | None = None
        """When the last of the jobs it works on was cancelled."""
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
            limit=LONGEST,
            env=child_environment(OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads),
            start_new_session=True,  # what a terminal or a service manager sends to the server's group is not for it
        )
        wanted = [name for name in self._models if name not in self._too_slow]
        self._send({**self._wanted, "models": {name: self._models[name] for name in wanted}})
        try:
            said = await self._loaded()
        except TimeoutError:
            await self._give_up_loading()
            return await self.start()
        self.loading = ""
        if "refused" in said:
            raise UserError(said["refused"])
        self.failed = {**self._too_slow, **said.get("failed", {})}
        self.alive, self._cancelled_at = True, None

    async def _loaded(self) -> dict[str, Any]:
        """The process's word that it is ready or that it cannot be; each model has a deadline of its own."""
        while True:
            async with asyncio.timeout(self._load_timeout):
                said = await self._read()
            if "loading" not in said:
                return said
            self.loading = said["loading"]

    async def _give_up_loading(self) -> None:
        """A model whose loading takes too long is done without where that is allowed."""
        late, self.loading = self.loading, ""
        await self.stop()
        why = f"{late or 'a worker'}: was not loaded within {self._load_timeout:g} s; allow more with --load-timeout"
        if late not in self._wanted["optional"]:
            raise UserError(why)
        self._too_slow[late] = why

    async def stop(self) -> None:
        self.alive = False
        if not self._process:
            return
        if self._process.stdin:
            self._process.stdin.close()  # the sign to end
        try:
            await asyncio.wait_for(self._process.wait(), STOPS)
        except TimeoutError:
            self.kill()
            await self._process.wait()

    def give(self, message: dict[str, Any], jobs: list[Any]) -> None:
        self.held, self._given, self._cancelled_at = jobs, time.monotonic(), None
        self._send({"id": self.next_id, **message})
        self.next_id += 1

    def cancel(self, batch: int, item: int) -> None:
        self._send({"cancel": batch, "items": [item]})

    def ping(self) -> None:
        """A worker that lives answers at once, also while it computes."""
        self._send({"ping": True})

    def silent(self) -> float:
        """Seconds since it last said anything."""
        return time.monotonic() - self._heard

    def stuck(self, seconds: float) -> bool:
        """Whether it has been computing for so long what nobody waits for any more."""
        if not self.held or not all(job.future.done() for job in self.held):
            self._cancelled_at = None
            return False
        self._cancelled_at = self._cancelled_at or time.monotonic()
        return time.monotonic() - self._cancelled_at > seconds

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
            line = await self._process.stdout.readline()
            if line.endswith(b"\n"):
                self._heard = time.monotonic()
                return json.loads(line)
        except (ConnectionError, ValueError):  # ValueError: longer than a message may be, or no JSON
            pass
        self.alive = False
        self.kill()
        await self._process.wait()
        raise WorkerLost(self.fate())
