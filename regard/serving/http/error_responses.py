"""Whatever is raised becomes an answer in JSON that says what was wrong and nothing of how the server is made."""

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
from regard.serving.catalogue import Served
from regard.serving.http.disconnect import Gone
from regard.serving.http.problem import Problem
from regard.serving.http.routing import is_below, methods_of, path_of
from regard.serving.log import log_error
from regard.serving.text.translation import Unsupported
from regard.serving.workers.worker_pool import Busy, Failed, Refused

LONGEST = 300
"""Characters of a message: more would only be the client's own text sent back."""
LINGER, MOST_UNREAD = 1.0, 32 * 1024 * 1024
"""Seconds for which, and bytes of which, the rest of a refused body is read and thrown away. Without that its sender,
still busy sending, would find a broken connection instead of the answer. Then the connection is closed."""
_ABSOLUTE = re.compile(r"(?<![\w:/.])/(?:[^\s/'\"]+/)+[^\s'\",;:]*")


class Refusals:
    """The one place where errors are answered, whether a door or a route raised them."""

    def __init__(self, app: ASGIApp, models: Iterable[Served] = ()):
        self.app = app
        self.folders = {str(model.folder): model.name for model in models}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def send_and_see(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, send_and_see)
        except Gone:
            return
        except Exception as error:
            problem = self._problem(error, scope)
            if problem is None:
                log_error(scope["state"]["id"], error)
                problem = Problem(500, f"Internal error; see the server's log under {scope['state']['id']}")
            if not begun:  # else the connection breaks off, which tells the client that the answer is not whole
                await _answer(problem, scope, receive, send)

    def _problem(self, error: Exception, scope: Scope) -> Problem | None:
        """What may be said of an error; None for a mistake of ours, of which nothing may."""
        match error:
            case Problem():
                return error
            case Busy():
                return Problem(503, str(error), {"Retry-After": str(error.retry_after)})
            case Failed():
                return Problem(503, self._without_paths(str(error)), {"Retry-After": "1"})
            case Refused() | UserError():
                return Problem(400, self._without_paths(str(error)))
            case Unsupported():
                return Problem(400, str(error))
            case RequestValidationError():
                return Problem(400, _in_one_line(error))
            case HTTPException(status_code=404):
                return Problem(404, "Not found")
            case HTTPException(status_code=405):
                return Problem(405, "Method not allowed", {"Allow": ", ".join(methods_of(scope))})
            case HTTPException():
                return Problem(error.status_code, str(error.detail), error.headers)
        return None

    def _without_paths(self, message: str) -> str:
        """Users of the command line want to know which file; here it is nobody's business."""
        for folder, name in self.folders.items():
            message = message.replace(folder, name)
        return _ABSOLUTE.sub("(a file)", message)


def _in_one_line(error: RequestValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query"))
    return f"Invalid request: {where}: {first['msg']}" if where else f"Invalid request: {first['msg']}"


async def _answer(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    said = problem.message if len(problem.message) <= LONGEST else f"{problem.message[: LONGEST - 3]}..."
    said = said.encode("utf-8", "replace").decode()
    body = {"message": said} if is_below(path_of(scope), "/v2") else {"error": said}
    headers = dict(problem.headers)
    unread = scope["state"].get("unread", False)
    if unread:
        headers["Connection"] = "close"
    response = JSONResponse(body, problem.status, headers)
    if not unread:
        await response(scope, receive, send)
        return
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER):
            thrown_away = 0
            while (message := await receive())["type"] == "http.request" and message.get("more_body", False):
                thrown_away += len(message.get("body", b""))
                if thrown_away > MOST_UNREAD:
                    break
                await asyncio.sleep(0)  # lets the clock and others run, also while there is always more
    await send({"type": "http.response.body", "body": b""})
