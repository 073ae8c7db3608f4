"""Log lines written by a thread, so that whoever reads the log, or does not, never holds up the event loop.

Lines wait in a bounded queue; what does not fit is dropped and counted. Lines of one kind that repeat too often are
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

MOST_WAITING = 10_000
"""Lines in the queue."""
INTERVAL = 10.0
"""Seconds over which lines of one kind are counted."""
MOST_KINDS = 1000
"""Kinds that are told apart."""


@dataclass
class _Window:
    """The lines of one kind in the current interval."""

    name: str
    since: float
    written: int = 0
    left_out: int = 0


class Repeats:
    """So many lines of a kind are written in an interval; the rest are counted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.clock = clock
        self._windows: dict[str, _Window] = {}
        self._lock = threading.Lock()

    def allow(self, name: str, limit: int) -> bool:
        """Whether one more line of this kind is written."""
        with self._lock:
            if len(self._windows) >= MOST_KINDS and name not in self._windows:
                name = "other lines"
            window = self._windows.setdefault(name, _Window(name, self.clock()))
            window.written += 1
            window.left_out += window.written > limit
            return window.written <= limit

    def summaries(self, at_once: bool = False) -> list[str]:
        """What to write of the intervals that are over, or of all."""
        with self._lock:
            now = self.clock()
            over = [name for name, window in self._windows.items() if at_once or now - window.since >= INTERVAL]
            ended = [self._windows.pop(name) for name in over]
        return [
            f"log: {window.left_out} more lines within {now - window.since:.0f} s of the kind: {window.name}"
            for window in ended
            if window.left_out
        ]


class LogWriter:
    """Writes to a file descriptor in a thread of its own. `put` never waits."""

    def __init__(self, descriptor: int, encoding: str = "utf-8"):
        self.descriptor, self.encoding = descriptor, encoding
        self.repeats = Repeats()
        self.dropped = 0
        """Lines so far that did not fit into the queue."""
        self._waiting: queue.Queue[str | Callable[[], None] | None] = queue.Queue(MOST_WAITING)
        self._told_at, self._told_dropped = time.monotonic(), 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def put(self, line: str | Callable[[], None]) -> None:
        """A line, or what writes one."""
        try:
            self._waiting.put_nowait(line)
        except queue.Full:
            self.dropped += 1

    def close(self, seconds: float) -> bool:
        """Writes what still waits; False where nobody reads it within so many seconds."""
        end = time.monotonic() + seconds
        try:
            self._waiting.put(None, timeout=seconds)
        except queue.Full:
            return False
        self._thread.join(max(0.0, end - time.monotonic()))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            try:
                line = self._waiting.get(timeout=1.0)
            except queue.Empty:
                line = ""
            if callable(line):
                with contextlib.suppress(OSError, ValueError):
                    line()
            elif line:
                self._write(line)
            if line is None or time.monotonic() - self._told_at > 1.0:
                self._summarise(at_once=line is None)
            if line is None:
                return

    def _summarise(self, at_once: bool) -> None:
        for summary in self.repeats.summaries(at_once):
            self._write(summary)
        dropped, self._told_dropped = self.dropped - self._told_dropped, self.dropped
        if dropped:
            self._write(f"log: {dropped} lines dropped: they were not read fast enough")
        self._told_at = time.monotonic()

    def _write(self, line: str) -> None:
        rest = line.encode(self.encoding, "backslashreplace") + b"\n"
        try:
            while rest:
                try:
                    rest = rest[os.write(self.descriptor, rest) :]
                except BlockingIOError:  # another process made the shared terminal or pipe non-blocking
                    select.select([], [self.descriptor], [])
        except (OSError, ValueError):  # nobody reads the log any more: no reason to stop answering
            pass
