"""Runs the server: binds the port, starts the workers, and shuts down gracefully."""

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
from regard.serving.http.connections import BACKLOG, connection_limits, protocol_factory
from regard.serving.settings import Settings
from regard.serving.text import language_detection
from regard.serving.workers.worker_pool import MAX_DEFAULT_WORKERS, WorkerPool
from regard.serving.workers.worker_process import check_device

KEEP_ALIVE_SECONDS = 30
"""How long a connection stays open between two requests."""
THREAD_SWITCH_SECONDS = 0.001
"""How soon the thread that works on texts yields to the event loop."""
Note = Callable[[str], None]
"""Writes a line for the user."""
MakeApp = Callable[[Settings, Catalogue, WorkerPool, bool], FastAPI]


def serve(settings: Settings, note: Note) -> int:
    """`regard serve`: runs until a signal stops it; returns the exit code."""
    check_device(settings.device)
    catalogue = read_catalogue(settings.models, settings.load_only)
    language_detection.warm()
    return listen(settings, catalogue, note, make_app)


def listen(settings: Settings, catalogue: Catalogue, note: Note, make_app: MakeApp, on_open: Note | None = None) -> int:
    """Serves the app that `make_app` makes. It starts to listen when the models are loaded or, with `on_open`, at once:
    `on_open` gets the address, and requests to models wait."""
    check_device(settings.device)
    with bind(settings.host, settings.port) as listener:
        if message := warning(settings):
            note(message)
        writer = log.start_writer()

        def queue_note(line: str) -> None:
            writer.put(lambda: note(line))

        sys.setswitchinterval(THREAD_SWITCH_SECONDS)
        flushed = True
        try:
            code = asyncio.run(_run(settings, catalogue, listener, queue_note, make_app, on_open))
        finally:
            flushed = log.stop_writer()
        if not flushed:  # the writer thread is blocked, and a normal exit would wait for it
            os._exit(code)
        return code


def bind(host: str, port: int) -> socket.socket:
    """Binds the socket, before models are loaded, so that a port in use is reported at once."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
    except socket.gaierror:
        raise UserError(f"--host {host}: no such address; use 127.0.0.1, or 0.0.0.0 for all networks") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UserError(f"port {port} is in use; choose another with --port, or stop what uses it") from None
        raise UserError(f"--host {host} --port {port}: cannot be used ({error.strerror})") from None
    return listener


async def _run(
    settings: Settings,
    catalogue: Catalogue,
    listener: socket.socket,
    note: Note,
    make_app: MakeApp,
    on_open: Note | None,
) -> int:
    pool = WorkerPool(settings, catalogue, note)
    app = make_app(settings, catalogue, pool, settings.log)
    shutdown = GracefulShutdown(settings.grace, settings.drain, note)
    note(f"loading {catalogue.summary()} ...")
    starting = asyncio.create_task(pool.start())
    with shutdown.on_signals():
        stop_requested = asyncio.create_task(shutdown.requested.wait())
        if on_open is None:
            await asyncio.wait([starting, stop_requested], return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                await _abort(starting)
                return 0
            starting.result()
        max_connections, accepted_at_once = connection_limits(max(settings.workers, MAX_DEFAULT_WORKERS))
        server = Server(
            uvicorn.Config(
                shutdown.counting(app),
                http=protocol_factory(max_connections),  # type: ignore[arg-type]  # called like a class
                backlog=accepted_at_once,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=1,
                ws="none",
            )
        )
        gc.collect()
        gc.freeze()  # these objects live until exit; scanning them for garbage would block the event loop
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        broken = asyncio.create_task(pool.broken.wait())
        host, port = listener.getsockname()[:2]
        url_host = f"[{host}]" if ":" in host else host
        address = f"http://{url_host}:{port}{settings.url_prefix}"
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        if server.started:
            listener.listen(BACKLOG)  # asyncio uses one number for the backlog and for accepting at once
        if on_open is None:
            note(f"ready on {address} (documentation at /docs); Ctrl-C stops")
        else:
            on_open(address)
            await asyncio.wait([serving, starting, stop_requested], return_when=asyncio.FIRST_COMPLETED)
        start_error = starting.exception() if starting.done() else None
        if not start_error:
            await asyncio.wait([serving, broken, stop_requested], return_when=asyncio.FIRST_COMPLETED)
        await _abort(starting)
        aborted = 0
        if stop_requested.done():
            app.state.draining = True  # not ready, and serving all the same until balancers have noticed
            await asyncio.wait([serving, broken], timeout=settings.drain, return_when=asyncio.FIRST_COMPLETED)
            app.state.refusing = True
            aborted = await shutdown.finish()
        server.should_exit = True
        await serving
        await pool.close()
        if app.state.telemetry:
            await asyncio.to_thread(app.state.telemetry.close)
    if broken.done():
        note("no worker can be started any more; see the lines above")
    broken.cancel()
    if start_error:
        raise start_error
    return 1 if aborted or pool.broken.is_set() else 0


async def _abort(starting: asyncio.Task[None]) -> None:
    """Cancels the start of the workers, if it is still running."""
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)


class Server(uvicorn.Server):
    """Without uvicorn's signal handlers; GracefulShutdown has ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class GracefulShutdown:
    """On the first signal, running requests may finish; the second signal ends the process."""

    def __init__(self, grace: float, drain: float, note: Note):
        self.grace, self.drain, self.note = grace, drain, note
        self.requested = asyncio.Event()
        self.active = 0
        self._finished = asyncio.Event()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Handles SIGINT, SIGTERM and SIGHUP; SIGHUP not if it is ignored, as under nohup."""
        loop = asyncio.get_running_loop()
        hangup = getattr(signal, "SIGHUP", None)
        numbers = [number for number in (signal.SIGINT, signal.SIGTERM, hangup) if number is not None]

        def signalled(number: int, frame: object) -> None:
            # The default handler of the next signal ends the process at once, whatever it is doing. A second SIGHUP is
            # ignored, since both the system and the shell send one when a terminal is closed.
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
        waiting = f"; not ready any more, serving for {self.drain:g} s" if self.drain else ""
        self.note(f"stopping; running requests: {self.active}{waiting}")
        self.requested.set()

    def counting(self, app: Any) -> Any:
        """Wraps the app to count running requests."""

        async def counted(scope: Any, receive: Any, send: Any) -> None:
            self.active += 1
            try:
                await app(scope, receive, send)
            finally:
                self.active -= 1
                if not self.active:
                    self._finished.set()

        return counted

    async def finish(self) -> int:
        """Waits for running requests, at most the grace period; returns how many are left."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.grace):
                while self.active:
                    self._finished.clear()
                    await self._finished.wait()
        return self.active
