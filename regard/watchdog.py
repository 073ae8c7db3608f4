"""A deadline for sockets. A socket's own timeout restarts with every byte, so a peer that sends one now and then could
hold a request for ever."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def watchdog(
    connected: Callable[[], socket.socket | None], seconds: float, late: Callable[[], bool] = lambda: True
) -> Iterator[threading.Event]:
    """Calls `late` every `seconds` and shuts the socket down once it returns True, which sets the event."""
    ended, done = threading.Event(), threading.Event()

    def watch() -> None:
        while not done.wait(seconds):
            if late() and (peer := connected()):
                ended.set()
                with contextlib.suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield ended
    finally:
        done.set()
        thread.join()
