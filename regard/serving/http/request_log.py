"""Request ids and the access log: one line per request, without its text, API key or client address."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.http.routing import route_of
from regard.serving.log import allow_line, timestamp, write

CLIENT_CLOSED_REQUEST = 499
"""Logged status when the client disconnected before there was a response."""
MAX_ERROR_LINES = 200
"""Lines for failed requests of one route and status within ten seconds."""


@dataclass(frozen=True)
class FinishedRequest:
    """What is recorded of a request."""

    id: str
    method: str
    route: str
    """The route's template such as /api/{task}, never the path itself; empty if no route matches."""
    status: int
    seconds: float
    complete: bool
    """Whether the whole response was sent."""


class RequestLogMiddleware:
    """The outermost middleware: assigns request ids and reports finished requests to `listeners`."""

    def __init__(self, app: ASGIApp, listeners: Sequence[Callable[[FinishedRequest], None]] = ()):
        self.app, self.listeners = app, listeners

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope.setdefault("state", {})["id"] = request_id = secrets.token_hex(8)
        status, complete, began = CLIENT_CLOSED_REQUEST, False, time.perf_counter()

        async def send_and_record(message: Message) -> None:
            nonlocal status, complete
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)
            complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self.app(scope, receive, send_and_record)
        finally:
            seconds = time.perf_counter() - began
            request = FinishedRequest(request_id, scope["method"], route_of(scope), status, seconds, complete)
            for listener in self.listeners:
                listener(request)


def log_request(request: FinishedRequest) -> None:
    """Writes the line of a request. Failed requests are cheap to send, so their lines are rate-limited."""
    route = request.route or "-"
    if request.status < 400 or allow_line(f"{route} {request.status}", MAX_ERROR_LINES):
        write(
            f"{timestamp()} {request.id} {request.method[:16]} {route} {request.status} "
            f"{request.seconds * 1000:.0f} ms{'' if request.complete else ' (incomplete)'}"
        )
