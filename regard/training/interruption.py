"""What Ctrl-C and SIGTERM mean while training: the first asks for a clean stop, the second ends the process at once.

One that comes within the `echo` of the first is no second one: a launcher passes on what the process got already.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """Raised inside `breakable` only. Not an Exception, so that no careless `except` keeps a run alive."""


class Interruption:
    """Listens for signals while entered; outside the main thread, where Python allows no handlers, it hears none."""

    def __init__(self, echo: float = 0.0) -> None:
        self.requested = False
        self._echo, self._heard = echo, 0.0
        self._breakable = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._first) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        if self.requested:
            raise Interrupted

    @contextlib.contextmanager
    def breakable(self) -> Iterator[None]:
        """Work that may be given up in the middle: a signal raises Interrupted there, now."""
        self._breakable = True
        try:
            self.check()
            yield
        finally:
            self._breakable = False

    def _first(self, number: int, frame: FrameType | None) -> None:
        self.requested, self._heard = True, time.monotonic()
        if self._echo:
            for each in SIGNALS:
                signal.signal(each, self._again)
        else:
            self._let_go()
        if self._breakable:
            raise Interrupted

    def _again(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() - self._heard > self._echo:
            self._let_go()
            signal.raise_signal(number)

    def _let_go(self) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
