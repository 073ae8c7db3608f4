"""From a free port to the last answer: binding, starting, and stopping so that nobody's request is lost."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.errors import UserError
from regard.serving import detection
from regard.serving.app import make_app
from regard.serving.catalogue import Catalogue, read_catalogue
from regard.serving.doors import warning
from regard.serving.engine import Engine
from regard.serving.hiring import check_device
from regard.serving.settings import Settings

PATIENCE = 15.0
"""Seconds that a client may take to send the head of a request."""
IDLE = 30
"""Seconds that a connection stays open between two requests."""
Note = Callable[[str], None]
Make = Callable[[Settings, Catalogue, Engine, bool], FastAPI]


def serve(settings: Settings, note: Note) -> int:
    """Runs until it is told to stop; the exit code."""
    check_device(settings.device)
    catalogue = read_catalogue(settings.models)
    detection.warm()
    return listen(settings, catalogue, note, make_app)


def listen(settings: Settings, catalogue: Catalogue, note: Note, make: Make, opened: Note | None = None) -> int:
    """Serves what `make` makes. Without `opened` it answers when its models are loaded. With it, at once: `opened` is
    told the address, and questions to models wait."""
    check_device(settings.device)
    with bound(settings.host, settings.port) as listening:
        if told := warning(settings):
            note(told)
        return asyncio.run(_run(settings, catalogue, listening, note, make, opened))


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there: before models are loaded, so that a port in use is said at once."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
        except BaseException:
            listening.close()
            raise
    except socket.gaierror:
        raise UserError(f"--host {host}: no such address; use 127.0.0.1, or 0.0.0.0 for all networks") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UserError(f"port {port} is in use; choose another with --port, or stop what uses it") from None
        raise UserError(f"--host {host} --port {port}: cannot be used ({error.strerror})") from None
    return listening


async def _run(
    settings: Settings,
    catalogue: Catalogue,
    listening: socket.socket,
    note: Note,
    make: Make,
    opened: Note | None,
) -> int:
    engine = Engine(settings, catalogue, note)
    app = make(settings, catalogue, engine, settings.log)
    stopping = Stopping(settings.grace, note)
    note(f"loading {', '.join(catalogue.models)} ...")
    starting = asyncio.create_task(engine.start())
    with stopping.on_signals():
        told = asyncio.create_task(stopping.told.wait())
        if opened is None:
            await asyncio.wait([starting, told], return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                await _given_up(starting)
                return 0
            starting.result()
        server = Server(
            uvicorn.Config(
                stopping.counted(app),
                http=Patient,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=IDLE,
                timeout_graceful_shutdown=1,
                ws="none",
            )
        )
        _allow_many_files()
        gc.collect()
        gc.freeze()  # what is there now stays: looking through all of it for garbage would hold up everybody
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        broken = asyncio.create_task(engine.broken.wait())
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{port}{settings.url_prefix}"
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        if opened is None:
            note(f"ready on {address} (documentation at /docs); Ctrl-C stops")
        else:
            opened(address)
            await asyncio.wait([serving, starting, told], return_when=asyncio.FIRST_COMPLETED)
        refused = starting.exception() if starting.done() else None
        if not refused:
            await asyncio.wait([serving, broken, told], return_when=asyncio.FIRST_COMPLETED)
        await _given_up(starting)
        cut_off = 0
        if told.done():
            app.state.draining = True
            cut_off = await stopping.drained()
        server.should_exit = True
        await serving
        await engine.close()
    if broken.done():
        note("no worker can be started any more; look at the lines above")
    broken.cancel()
    if refused:
        raise refused
    return 1 if cut_off or engine.broken.is_set() else 0


async def _given_up(starting: asyncio.Task[None]) -> None:
    """Ends a start that nobody waits for; one that is over stays as it is."""
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)


class Server(uvicorn.Server):
    """Signals are ours: what they mean depends on the engine, too."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Patient(H11Protocol):
    """Closes a connection on which no request begins in good time: slow and silent clients hold nothing."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._arrived()
        elif self._timer is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(PATIENCE, self.transport.close)

    def _arrived(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


class Stopping:
    """Told to stop, a server lets those finish who are being answered. Told twice, it stops."""

    def __init__(self, grace: float, note: Note):
        self.grace, self.note = grace, note
        self.told = asyncio.Event()
        self.active = 0
        self._finished = asyncio.Event()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self._signalled, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _signalled(self, number: int) -> None:
        if self.told.is_set():
            os._exit(128 + number)  # workers end when their input does
        self.note(f"stopping; requests under way: {self.active}")
        self.told.set()

    def counted(self, app: Any) -> Any:
        """The app, counting the requests that are being answered."""

        async def counting(scope: Any, receive: Any, send: Any) -> None:
            self.active += 1
            try:
                await app(scope, receive, send)
            finally:
                self.active -= 1
                if not self.active:
                    self._finished.set()

        return counting

    async def drained(self) -> int:
        """Waits until nobody is being answered, but no longer than the grace; how many were left."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.grace):
                while self.active:
                    self._finished.clear()
                    await self._finished.wait()
        return self.active


def _allow_many_files() -> None:
    """A connection is an open file: as many as the system lets this process have."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
