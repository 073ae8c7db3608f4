"""Turns exceptions into JSON error responses that reveal nothing about the server's internals."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from contextlib import suppress

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import UserError
from regard.serving.catalogue import ServedModel
from regard.serving.http.disconnect import ClientDisconnected
from regard.serving.http.http_error import HttpError
from regard.serving.http.routing import is_below, methods_of, path_of
from regard.serving.log import log_error
from regard.serving.text.translator import UnsupportedLanguage
from regard.serving.workers.errors import JobFailed, JobRefused, ServerBusy

MAX_MESSAGE_CHARACTERS = 300
"""A longer message only echoes the client's own text."""
LINGER_SECONDS, MAX_DISCARDED_BYTES = 1.0, 32 * 1024 * 1024
"""How long, and how much of, a refused body is read and discarded before the connection is closed. Otherwise a client
that is still sending would see a broken connection instead of the response."""
_ABSOLUTE = re.compile(r"(?<![\w:/.])/(?:[^\s/'\"]+/)+[^\s'\",;:]*")


class ErrorMiddleware:
    """The one place that responds to errors, whether middleware or a route raised them."""

    def __init__(self, app: ASGIApp, models: Iterable[ServedModel] = ()):
        self.app = app
        self.folders = {str(model.folder): model.name for model in models}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        except ClientDisconnected:
            return
        except Exception as error:
            response = self._http_error(error, scope)
            if response is None:
                log_error(scope["state"]["id"], error)
                response = HttpError(500, f"Internal error; see the server's log under {scope['state']['id']}")
            if not started:  # else the connection is cut, which tells the client that the response is incomplete
                await _respond(response, scope, receive, send)

    def _http_error(self, error: Exception, scope: Scope) -> HttpError | None:
        """The response to an error; None for a bug, of which the client learns nothing."""
        match error:
            case HttpError():
                return error
            case ServerBusy():
                return HttpError(503, str(error), {"Retry-After": str(error.retry_after)})
            case JobFailed():
                return HttpError(503, self._without_paths(str(error)), {"Retry-After": "1"})
            case JobRefused() | UserError():
                return HttpError(400, self._without_paths(str(error)))
            case UnsupportedLanguage():
                return HttpError(400, str(error))
            case RequestValidationError():
                return HttpError(400, _summary(error))
            case HTTPException(status_code=404):
                return HttpError(404, "Not found")
            case HTTPException(status_code=405):
                return HttpError(405, "Method not allowed", {"Allow": ", ".join(methods_of(scope))})
            case HTTPException():
                return HttpError(error.status_code, str(error.detail), error.headers)
        return None

    def _without_paths(self, message: str) -> str:
        """Replaces file paths, which are for users of the command line only."""
        for folder, name in self.folders.items():
            message = message.replace(folder, name)
        return _ABSOLUTE.sub("(a file)", message)


def _summary(error: RequestValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query"))
    return f"Invalid request: {where}: {first['msg']}" if where else f"Invalid request: {first['msg']}"


async def _respond(error: HttpError, scope: Scope, receive: Receive, send: Send) -> None:
    message = error.message
    if len(message) > MAX_MESSAGE_CHARACTERS:
        message = f"{message[: MAX_MESSAGE_CHARACTERS - 3]}..."
    message = message.encode("utf-8", "replace").decode()
    body = {"message": message} if is_below(path_of(scope), "/v2") else {"error": message}
    headers = dict(error.headers)
    unread = scope["state"].get("unread", False)
    if unread:
        headers["Connection"] = "close"
    response = JSONResponse(body, error.status, headers)
    if not unread:
        await response(scope, receive, send)
        return
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            discarded = 0
            while (event := await receive())["type"] == "http.request" and event.get("more_body", False):
                discarded += len(event.get("body", b""))
                if discarded > MAX_DISCARDED_BYTES:
                    break
                await asyncio.sleep(0)  # lets the timeout and other tasks run
    await send({"type": "http.response.body", "body": b""})
