"""What Ctrl-C and SIGTERM mean while training: the first asks for a clean stop, the second ends the process at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """Raised inside `breakable` only. Not an Exception, so that no careless `except` keeps a run alive."""


class Interruption:
    """Listens for signals while entered; outside the main thread, where Python allows no handlers, it hears none."""

    def __init__(self) -> None:
        self.requested = False
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
        self.requested = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._breakable:
            raise Interrupted
