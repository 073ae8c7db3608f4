"""Each request gets an id, and one line on stderr once it is answered: without text, key or address of who asked."""

from __future__ import annotations

import secrets
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.harmless import harmless, one_line
from regard.serving.routed import route_of

NOT_ANSWERED = 499
"""The status that stands for: the client went away before there was an answer."""


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
    write(
        f"{_now()} {answered.id} {answered.method[:16]} {answered.route or '-'} {answered.status} "
        f"{answered.seconds * 1000:.0f} ms{'' if answered.whole else ' (not sent to its end)'}"
    )


def log_error(id: str, error: BaseException) -> None:
    """The traceback of a mistake of ours, each line after the request's id: no text in it can pose as another line."""
    for block in traceback.format_exception(error):
        for line in block.splitlines():
            write(f"{_now()} {id} | {line}")


def write(line: str) -> None:
    try:
        encoding = sys.stderr.encoding or "utf-8"
        shown = harmless(one_line(line)).encode(encoding, "backslashreplace").decode(encoding)
        print(shown, file=sys.stderr, flush=True)
    except (OSError, ValueError):  # nobody reads the log any more: no reason to stop answering
        pass


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
