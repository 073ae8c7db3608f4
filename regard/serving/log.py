"""Each request gets an id, and one line on stderr once it is answered: without text, key or address of who asked.

While a server runs (`in_background`), a thread writes the lines, and those that repeat too often are counted instead.
"""

from __future__ import annotations

import logging
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.http.routing import route_of
from regard.serving.log_writer import LogWriter
from regard.terminal_text import harmless, one_line

NOT_ANSWERED = 499
"""The status that stands for: the client went away before there was an answer."""

MOST_REFUSALS, MOST_ERRORS = 200, 5
"""Lines for refusals of one route and status, and for errors of one kind, within ten seconds."""
FLUSH = 2.0
"""Seconds that the end of the log may take to be written when the server stops."""


@dataclass(frozen=True)
class Answered:
    """What is known of a request that is over."""

    id: str
    method: str
    route: str
    """Its template such as /api/{task}, never what stands in the address; empty when there is no such route."""
    status: int
    seconds: float
    whole: bool
    """Whether the answer was sent to its end."""


class Watched:
    """The outermost layer: names requests, and tells listeners how each was answered."""

    def __init__(self, app: ASGIApp, listeners: Sequence[Callable[[Answered], None]] = ()):
        self.app, self.listeners = app, listeners

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope.setdefault("state", {})["id"] = name = secrets.token_hex(8)
        status, whole, began = NOT_ANSWERED, False, time.perf_counter()

        async def send_and_see(message: Message) -> None:
            nonlocal status, whole
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)
            whole = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self.app(scope, receive, send_and_see)
        finally:
            seconds = time.perf_counter() - began
            answered = Answered(name, scope["method"], route_of(scope), status, seconds, whole)
            for listener in self.listeners:
                listener(answered)


def log(answered: Answered) -> None:
    """Requests that were refused are cheap, so anybody can have many of them logged: those lines are limited."""
    route = answered.route or "-"
    if answered.status < 400 or _allowed(f"{route} {answered.status}", MOST_REFUSALS):
        write(
            f"{_now()} {answered.id} {answered.method[:16]} {route} {answered.status} "
            f"{answered.seconds * 1000:.0f} ms{'' if answered.whole else ' (not sent to its end)'}"
        )


def log_error(id: str, error: BaseException) -> None:
    """The traceback of a mistake of ours, each line after the request's id: no text in it can pose as another line."""
    if not _allowed(_kind_of(error), MOST_ERRORS):
        return
    for block in traceback.format_exception(error):
        for line in block.splitlines():
            write(f"{_now()} {id} | {line}")


def write(line: str) -> None:
    shown = harmless(one_line(line))
    if _writer:
        _writer.put(shown)
        return
    try:
        encoding = sys.stderr.encoding or "utf-8"
        print(shown.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)
    except (OSError, ValueError):  # nobody reads the log any more: no reason to stop answering
        pass


_writer: LogWriter | None = None


def in_background() -> LogWriter:
    """From now on a thread writes the log, and what libraries have to say goes there, too; until `in_foreground`."""
    global _writer
    try:
        _writer = LogWriter(sys.stderr.fileno(), sys.stderr.encoding or "utf-8")
    except (AttributeError, OSError, ValueError):  # no stderr of this process's own
        _writer = LogWriter(2)
    logging.getLogger().addHandler(_LIBRARIES)
    return _writer


def in_foreground() -> bool:
    """Ends what `in_background` began; False where nobody reads the log, so that it could not be written to its end."""
    global _writer
    writer, _writer = _writer, None
    logging.getLogger().removeHandler(_LIBRARIES)
    return writer is None or writer.close(FLUSH)


class _Libraries(logging.Handler):
    """Warnings and errors of asyncio and uvicorn."""

    def emit(self, record: logging.LogRecord) -> None:
        said = str(record.msg).partition("\n")[0]
        if not _allowed(f"{record.name}: {said}", MOST_ERRORS):
            return
        write(f"{_now()} {record.name} | {record.getMessage()}")
        if record.exc_info and record.exc_info[1]:
            log_error(record.name, record.exc_info[1])


_LIBRARIES = _Libraries(logging.WARNING)


def _allowed(kind: str, limit: int) -> bool:
    return _writer is None or _writer.repeats.allow(kind, limit)


def _kind_of(error: BaseException) -> str:
    """Its type and the line of code that raised it."""
    where = [f"{frame.f_code.co_filename}:{line}" for frame, line in traceback.walk_tb(error.__traceback__)]
    return " at ".join([type(error).__name__, *where[-1:]])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
