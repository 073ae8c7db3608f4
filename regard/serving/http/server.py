"""From a free port to the last answer: binding, starting, and stopping so that nobody's request is lost."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI

from regard.errors import UserError
from regard.serving import log
from regard.serving.catalogue import Catalogue, read_catalogue
from regard.serving.http.access import warning
from regard.serving.http.app import make_app
from regard.serving.http.connections import BACKLOG, connection_limits, connections
from regard.serving.settings import Settings
from regard.serving.text import detection
from regard.serving.workers.worker_pool import MOST_WORKERS, Engine
from regard.serving.workers.worker_process import check_device

IDLE = 30
"""Seconds that a connection stays open between two requests."""
SWITCH = 0.001
"""Seconds after which a thread that works on text lets the event loop go on when it has something to do."""
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
        writer = log.in_background()

        def noted(line: str) -> None:
            writer.put(lambda: note(line))

        sys.setswitchinterval(SWITCH)
        written = True
        try:
            code = asyncio.run(_run(settings, catalogue, listening, noted, make, opened))
        finally:
            written = log.in_foreground()
        if not written:  # the thread still waits for somebody to read the log, and Python would wait for it
            os._exit(code)
        return code


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
        most, at_once = connection_limits(max(settings.workers, MOST_WORKERS))
        server = Server(
            uvicorn.Config(
                stopping.counted(app),
                http=connections(most),  # type: ignore[arg-type]  # called like a class
                backlog=at_once,
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
        gc.collect()
        gc.freeze()  # what is there now stays: looking through all of it for garbage would hold up everybody
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        broken = asyncio.create_task(engine.broken.wait())
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{port}{settings.url_prefix}"
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        if server.started:
            listening.listen(BACKLOG)  # asyncio has but one number for those that wait and those it accepts at once
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


class Stopping:
    """Told to stop, a server lets those finish who are being answered. Told twice, it stops."""

    def __init__(self, grace: float, note: Note):
        self.grace, self.note = grace, note
        self.told = asyncio.Event()
        self.active = 0
        self._finished = asyncio.Event()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """SIGHUP stops the server, too, unless whoever started it wants it ignored, as nohup does."""
        loop = asyncio.get_running_loop()
        hangup = getattr(signal, "SIGHUP", None)
        numbers = [number for number in (signal.SIGINT, signal.SIGTERM, hangup) if number is not None]

        def signalled(number: int, frame: object) -> None:
            # The next one ends the process at once: the system does that, whatever this process is doing. Not a second
            # SIGHUP, since both the system and the shell send one when a terminal is closed.
            for each in numbers:
                signal.signal(each, signal.SIG_IGN if each == hangup else signal.SIG_DFL)
            loop.call_soon_threadsafe(self._stop)

        before = {number: signal.getsignal(number) for number in numbers}
        for number in numbers:
            if number != hangup or before[number] != signal.SIG_IGN:
                signal.signal(number, signalled)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self) -> None:
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
