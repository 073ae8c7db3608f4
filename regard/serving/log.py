"""The server's log on stderr: escaped lines, tracebacks, and what libraries log.

While a server runs (`start_writer`), a thread writes the lines, and lines that repeat too often are only counted.
"""

from __future__ import annotations

import logging
import sys
import traceback
from datetime import UTC, datetime

from regard.serving.log_writer import LogWriter
from regard.terminal_text import escape_control_characters, one_line

MAX_TRACEBACKS = 5
"""Tracebacks of one kind within ten seconds."""
FLUSH_SECONDS = 2.0
"""Time to write the end of the log when the server stops."""


def log_error(id: str, error: BaseException) -> None:
    """Writes a traceback, each line prefixed with the request's id so that none can be forged."""
    if not allow_line(_kind_of(error), MAX_TRACEBACKS):
        return
    for block in traceback.format_exception(error):
        for line in block.splitlines():
            write(f"{timestamp()} {id} | {line}")


def write(line: str) -> None:
    """Writes one line, with control characters escaped."""
    escaped = escape_control_characters(one_line(line))
    if _writer:
        _writer.put(escaped)
        return
    try:
        encoding = sys.stderr.encoding or "utf-8"
        print(escaped.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)
    except (OSError, ValueError):  # stderr is closed: the server goes on
        pass


_writer: LogWriter | None = None


def start_writer() -> LogWriter:
    """Starts the thread that writes the log, and routes the log records of libraries to it."""
    global _writer
    try:
        _writer = LogWriter(sys.stderr.fileno(), sys.stderr.encoding or "utf-8")
    except (AttributeError, OSError, ValueError):  # sys.stderr was replaced
        _writer = LogWriter(2)
    logging.getLogger().addHandler(_LIBRARIES)
    return _writer


def stop_writer() -> bool:
    """Flushes the log and stops the thread; False if the log could not be written because nobody reads it."""
    global _writer
    writer, _writer = _writer, None
    logging.getLogger().removeHandler(_LIBRARIES)
    return writer is None or writer.close(FLUSH_SECONDS)


class _LibraryHandler(logging.Handler):
    """Warnings and errors of asyncio and uvicorn."""

    def emit(self, record: logging.LogRecord) -> None:
        first_line = str(record.msg).partition("\n")[0]
        if not allow_line(f"{record.name}: {first_line}", MAX_TRACEBACKS):
            return
        write(f"{timestamp()} {record.name} | {record.getMessage()}")
        if record.exc_info and record.exc_info[1]:
            log_error(record.name, record.exc_info[1])


_LIBRARIES = _LibraryHandler(logging.WARNING)


def allow_line(kind: str, limit: int) -> bool:
    """Whether another line of this kind may be written; without a writer thread, always."""
    return _writer is None or _writer.rate_limit.allow(kind, limit)


def _kind_of(error: BaseException) -> str:
    """The error's type and the line that raised it."""
    where = [f"{frame.f_code.co_filename}:{line}" for frame, line in traceback.walk_tb(error.__traceback__)]
    return " at ".join([type(error).__name__, *where[-1:]])


def timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
