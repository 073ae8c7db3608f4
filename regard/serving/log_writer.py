"""A thread that writes log lines, so that a slow reader of the log never blocks the event loop.

Lines wait in a bounded queue; when it is full they are dropped and counted. Lines of one kind that repeat too often are
counted instead of written, and the count is written later.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

MAX_QUEUED = 10_000
"""Lines in the queue."""
INTERVAL = 10.0
"""Seconds over which lines of one kind are counted."""
MAX_KINDS = 1000
"""Kinds that are counted separately."""


@dataclass
class _Window:
    """The lines of one kind in the current interval."""

    kind: str
    since: float
    lines: int = 0
    suppressed: int = 0


class LineRateLimit:
    """Allows a limited number of lines per kind and interval, and counts the rest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.clock = clock
        self._windows: dict[str, _Window] = {}
        self._lock = threading.Lock()

    def allow(self, kind: str, limit: int) -> bool:
        """Whether one more line of this kind may be written."""
        with self._lock:
            if len(self._windows) >= MAX_KINDS and kind not in self._windows:
                kind = "other lines"
            window = self._windows.setdefault(kind, _Window(kind, self.clock()))
            window.lines += 1
            window.suppressed += window.lines > limit
            return window.lines <= limit

    def summaries(self, all_windows: bool = False) -> list[str]:
        """Lines that report suppressed ones: of finished intervals, or of all."""
        with self._lock:
            now = self.clock()
            over = [kind for kind, window in self._windows.items() if all_windows or now - window.since >= INTERVAL]
            ended = [self._windows.pop(kind) for kind in over]
        return [
            f"log: {window.suppressed} more lines within {now - window.since:.0f} s of the kind: {window.kind}"
            for window in ended
            if window.suppressed
        ]


class LogWriter:
    """Writes to a file descriptor in its own thread. `put` never blocks."""

    def __init__(self, descriptor: int, encoding: str = "utf-8"):
        self.descriptor, self.encoding = descriptor, encoding
        self.rate_limit = LineRateLimit()
        self.dropped = 0
        """Lines dropped so far because the queue was full."""
        self._queue: queue.Queue[str | Callable[[], None] | None] = queue.Queue(MAX_QUEUED)
        self._summarised_at, self._reported_dropped = time.monotonic(), 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def put(self, line: str | Callable[[], None]) -> None:
        """Queues a line, or a function that writes one."""
        try:
            self._queue.put_nowait(line)
        except queue.Full:
            self.dropped += 1

    def close(self, seconds: float) -> bool:
        """Writes what is queued; False if that takes longer than `seconds`."""
        end = time.monotonic() + seconds
        try:
            self._queue.put(None, timeout=seconds)
        except queue.Full:
            return False
        self._thread.join(max(0.0, end - time.monotonic()))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            try:
                line = self._queue.get(timeout=1.0)
            except queue.Empty:
                line = ""
            if callable(line):
                with contextlib.suppress(OSError, ValueError):
                    line()
            elif line:
                self._write(line)
            if line is None or time.monotonic() - self._summarised_at > 1.0:
                self._summarise(final=line is None)
            if line is None:
                return

    def _summarise(self, final: bool) -> None:
        for summary in self.rate_limit.summaries(final):
            self._write(summary)
        dropped, self._reported_dropped = self.dropped - self._reported_dropped, self.dropped
        if dropped:
            self._write(f"log: {dropped} lines dropped: the log is not read fast enough")
        self._summarised_at = time.monotonic()

    def _write(self, line: str) -> None:
        rest = line.encode(self.encoding, "backslashreplace") + b"\n"
        try:
            while rest:
                try:
                    rest = rest[os.write(self.descriptor, rest) :]
                except BlockingIOError:  # another process made the shared terminal or pipe non-blocking
                    select.select([], [self.descriptor], [])
        except (OSError, ValueError):  # nobody reads the log: the server goes on
            pass
