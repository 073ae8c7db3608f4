"""What this server answers to the examples of its documentation page: asked once, when somebody first opens the page.

The requests go straight to the routes, without the middleware that counts a client's requests: they are always the same
few, and are sent once.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware

from regard.serving.http.routes.openapi import Schema

PATHS = ("/translate", "/v2/translate", "/detect")
"""Routes whose answer depends on the models that are served."""
PATIENCE = 1.0
"""Seconds that the page waits; without an answer by then it shows none."""
MOST_SECONDS = 30.0


class ExampleAnswers:
    """The answers by path. None of them is made up: an example that failed is asked again with the next page."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self._asking: asyncio.Task[None] | None = None

    async def of(self, app: FastAPI) -> dict[str, Any]:
        """All that are known, after waiting a little."""
        examples = {path: body for path in PATHS if (body := _example(app.openapi(), path))}
        if examples.keys() - self.found.keys():
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask(app, examples))
            await asyncio.wait({self._asking}, timeout=PATIENCE)
        return self.found

    async def _ask(self, app: FastAPI, examples: dict[str, Any]) -> None:
        for path, body in examples.items():
            if path in self.found:
                continue
            try:
                self.found[path] = await asyncio.wait_for(_answer(app, path, body), MOST_SECONDS)
            except Exception:  # whatever it is, a client that asks the same will be told
                return


def _example(tree: Schema, path: str) -> Any:
    operation = tree.get("paths", {}).get(path, {}).get("post", {})
    return operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")


async def _answer(app: FastAPI, path: str, body: Any) -> Any:
    """The JSON of a route's response; an error that it raises is raised here."""
    content = json.dumps(body).encode()
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())],
        "app": app,
        "state": {"owner": "", "id": "example"},
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
        "scheme": "http",
        "http_version": "1.1",
    }
    said: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        said.append(message)

    await AsyncExitStackMiddleware(app.router)(scope, receive, send)  # which every route of FastAPI needs
    if said[0]["status"] != 200:
        raise ValueError(f"{path} answered {said[0]['status']}")
    return json.loads(b"".join(message.get("body", b"") for message in said[1:]))
