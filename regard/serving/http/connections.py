"""Connections of clients: how many there may be, how long a silent one stays, and in what pieces they are read."""

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

PATIENCE = 15.0
"""Seconds that a client may take to send the head of a request."""
READ_SIZE = 8 * 1024
"""Bytes that are read and parsed at a time, before it is another connection's turn."""
FREE_CHUNKS, LEAST_CHUNK = 500, 32
"""A chunked body of more than so many chunks must average so many bytes a chunk: each takes as long to parse as a
kilobyte of data."""
MOST_CONNECTIONS, AT_ONCE, BACKLOG = 10_000, 128, 2048
"""Connections that are open; that are accepted before other work is done; that wait to be accepted."""
RESERVED, PER_WORKER = 64, 8
"""File descriptors that are kept for other things: log, models, listening; pipes of each worker and its successor."""
_BUSY = b'{"error":"The server has too many connections"}'
BUSY = b"\r\n".join(
    [
        b"HTTP/1.1 503 Service Unavailable",
        b"Connection: close",
        b"Retry-After: 1",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(_BUSY),
        b"",
        _BUSY,
    ]
)


def connection_limits(workers: int) -> tuple[int, int]:
    """How many connections a server may have, and how many it may accept before it can close one of them again:
    together, less than the files that this process may open."""
    usable = _most_files() - RESERVED - PER_WORKER * workers
    at_once = min(AT_ONCE, max(8, usable // 4))
    return min(MOST_CONNECTIONS, max(8, usable - at_once)), at_once


def _most_files() -> int:
    """Raised to what the system lets this process have: a connection is an open file."""
    most = 2 * MOST_CONNECTIONS
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        return most if soft == resource.RLIM_INFINITY else soft
    return most


def connections(limit: int) -> Callable[..., Patient]:
    """What makes the protocol of each connection (uvicorn's `http`)."""
    return partial(Patient, idle={}, limit=limit)


class Patient(H11Protocol):
    """Closes a connection on which no request begins in good time: slow and silent clients hold nothing. When there are
    too many connections, the one that has been idle longest makes room."""

    conn: Chunks
    _timer: asyncio.TimerHandle | None = None

    def __init__(self, *given: Any, idle: dict[Patient, None], limit: int, **named: Any):
        super().__init__(*given, **named)
        self.conn = Chunks(h11.SERVER, self.config.h11_max_incomplete_event_size or DEFAULT_MAX_INCOMPLETE_EVENT_SIZE)
        self.idle, self.limit = idle, limit
        """Connections without a request under way, longest first; and how many there may be in all."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if hasattr(transport, "max_size"):  # asyncio's own transports
            transport.max_size = READ_SIZE
        if len(self.connections) > self.limit and not self._make_room():
            transport.write(BUSY)
            transport.close()
            return
        self.idle[self] = None
        self._wait()

    def _make_room(self) -> bool:
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
            self._arrived()
        elif self._timer is None:
            self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self.idle[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.idle.pop(self, None)
        self._arrived()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """In JSON, like all refusals. Once another answer has begun, the connection only breaks off."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        body = json.dumps({"error": self.conn.refused or msg}).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Connection", "close")]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _wait(self) -> None:
        self._timer = self.loop.call_later(PATIENCE, self.transport.close)

    def _arrived(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


class Chunks(h11.Connection):
    """Refuses bodies that are cut into tiny chunks."""

    refused = ""
    _chunks = _bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
            if self._chunks > FREE_CHUNKS and self._bytes < LEAST_CHUNK * (self._chunks - 1):
                self.refused = "The body has too many small chunks."
                raise h11.RemoteProtocolError(self.refused)
        return event
