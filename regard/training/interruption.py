"""Ctrl-C and SIGTERM during training: the first signal requests a clean stop, the second ends the process at once.

A signal within `echo` seconds of the first is not a second one: a launcher may pass on what the process already got.
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
    """Training was asked to stop. Not an Exception, so that no broad `except` keeps a run alive."""


class Interruption:
    """Handles signals while entered. Outside the main thread Python allows no handlers, so it handles none."""

    def __init__(self, echo: float = 0.0) -> None:
        self.requested = False
        self._echo, self._received = echo, 0.0
        self._breakable = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle_first) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        if self.requested:
            raise Interrupted

    @contextlib.contextmanager
    def breakable(self) -> Iterator[None]:
        """Inside, a signal raises Interrupted immediately: for work that can be abandoned halfway."""
        self._breakable = True
        try:
            self.check()
            yield
        finally:
            self._breakable = False

    def _handle_first(self, number: int, frame: FrameType | None) -> None:
        self.requested, self._received = True, time.monotonic()
        if self._echo:
            for each in SIGNALS:
                signal.signal(each, self._handle_repeated)
        else:
            self._restore_defaults()
        if self._breakable:
            raise Interrupted

    def _handle_repeated(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() - self._received > self._echo:
            self._restore_defaults()
            signal.raise_signal(number)

    def _restore_defaults(self) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
