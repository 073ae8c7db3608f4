"""Limits on client connections: how many, how long they may be idle, and how much is read at a time."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import h11
from h11._connection import DEFAULT_MAX_INCOMPLETE_EVENT_SIZE
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_HEAD_SECONDS = 15.0
"""Time for a client to send the head of a request."""
READ_SIZE = 8 * 1024
"""Bytes read and parsed before other connections get a turn."""
FREE_CHUNKS, MIN_CHUNK_BYTES = 500, 32
"""A body of more chunks than the first must average at least the second in bytes: parsing a chunk takes as long as a
kilobyte of data."""
MAX_CONNECTIONS, ACCEPTED_AT_ONCE, BACKLOG = 10_000, 128, 2048
"""Open connections; accepted in one turn of the event loop; waiting in the kernel to be accepted."""
RESERVED, PER_WORKER = 64, 8
"""File descriptors for other uses: log, models, sockets; pipes of each worker and its replacement."""
_BUSY_BODY = b'{"error":"The server has too many connections"}'
BUSY_RESPONSE = b"\r\n".join(
    [
        b"HTTP/1.1 503 Service Unavailable",
        b"Connection: close",
        b"Retry-After: 1",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(_BUSY_BODY),
        b"",
        _BUSY_BODY,
    ]
)


def connection_limits(workers: int) -> tuple[int, int]:
    """The limits of open connections and of connections accepted at once, before any can be closed again. Together they
    stay below this process's limit of open files."""
    usable = _max_open_files() - RESERVED - PER_WORKER * workers
    at_once = min(ACCEPTED_AT_ONCE, max(8, usable // 4))
    return min(MAX_CONNECTIONS, max(8, usable - at_once)), at_once


def _max_open_files() -> int:
    """The limit of open files, raised to the hard limit: a connection is an open file."""
    enough = 2 * MAX_CONNECTIONS
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        return enough if soft == resource.RLIM_INFINITY else soft
    return enough


def protocol_factory(limit: int) -> Callable[..., LimitedProtocol]:
    """Makes the protocol of each connection (uvicorn's `http`)."""
    return partial(LimitedProtocol, idle={}, limit=limit)


class LimitedProtocol(H11Protocol):
    """Closes connections on which no request arrives in time, so slow and silent clients hold no resources. When there
    are too many connections, the one that has been idle longest is closed."""

    conn: ChunkLimitedConnection
    _timer: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, idle: dict[LimitedProtocol, None], limit: int, **kwargs: Any):
        super().__init__(*args, **kwargs)
        max_event_size = self.config.h11_max_incomplete_event_size or DEFAULT_MAX_INCOMPLETE_EVENT_SIZE
        self.conn = ChunkLimitedConnection(h11.SERVER, max_event_size)
        self.idle, self.limit = idle, limit
        """Connections without a running request, longest idle first; and the limit of all connections."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if hasattr(transport, "max_size"):  # asyncio's own transports
            transport.max_size = READ_SIZE
        if len(self.connections) > self.limit and not self._close_idle():
            transport.write(BUSY_RESPONSE)
            transport.close()
            return
        self.idle[self] = None
        self._start_timer()

    def _close_idle(self) -> bool:
        longest = next(iter(self.idle), None)
        if longest is None:
            return False
        del self.idle[longest]
        longest.transport.abort()
        return True

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.idle.pop(self, None)
            self._stop_timer()
        elif self._timer is None:
            self._start_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self.idle[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.idle.pop(self, None)
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """A JSON error like all others. If a response has already started, the connection is cut."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        body = json.dumps({"error": self.conn.error_message or msg}).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Connection", "close")]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(REQUEST_HEAD_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


class ChunkLimitedConnection(h11.Connection):
    """Refuses bodies that consist of tiny chunks."""

    error_message = ""
    _chunks = _bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
            if self._chunks > FREE_CHUNKS and self._bytes < MIN_CHUNK_BYTES * (self._chunks - 1):
                self.error_message = "The body has too many small chunks."
                raise h11.RemoteProtocolError(self.error_message)
        return event
