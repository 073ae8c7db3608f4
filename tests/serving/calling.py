"""An app with a few plain routes behind the real middleware, and ASGI calls without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import StreamingResponse
from serving.fakes import FakePool, catalogue

from regard.serving.http.app import app_with_middleware
from regard.serving.http.request_body import BodyLimits
from regard.serving.http.request_fields import fields_of
from regard.serving.settings import Settings
from regard.serving.workers.translation_result import SearchOptions

HOST = "127.0.0.1:5000"
FORM = "application/x-www-form-urlencoded"
Message = dict[str, Any]


def guarded(
    pool: FakePool | None = None, body_limits: BodyLimits | None = None, log_requests: bool = False, **settings: Any
) -> FastAPI:
    """An app with these settings and the routes below."""
    pool = pool or FakePool()
    return app_with_middleware(Settings(**settings), catalogue(), pool, [routes(pool)], log_requests, body_limits)  # type: ignore[arg-type]


def routes(pool: FakePool) -> APIRouter:
    router = APIRouter()

    @router.get("/health")
    @router.get("/languages")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/fields")
    @router.post("/fields")
    @router.post("/v2/fields")
    @router.post("/api/fields")
    async def fields(request: Request) -> dict[str, Any]:
        return {"fields": await fields_of(request)}

    @router.post("/raw")
    async def raw(request: Request) -> dict[str, Any]:
        body = await request.body()
        return {"bytes": len(body), "first": body[:8].hex()}

    @router.post("/translate")
    async def translate(request: Request) -> dict[str, Any]:
        fields = await fields_of(request)
        (found,) = await pool.translate("fr-en", [fields["q"]], SearchOptions(), request.state.owner)
        return {"translatedText": found.text}

    @router.post("/stream")
    async def stream(request: Request) -> StreamingResponse:
        async def lines() -> Any:
            async for part in pool.stream("poet", "generate", {}):
                yield json.dumps(part) + "\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    return router


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool

    def json(self) -> Any:
        return json.loads(self.body)


def call(app: Any, method: str, path: str, **more: Any) -> Reply:
    return asyncio.run(calling(app, method, path, **more))


async def calling(
    app: Any,
    method: str,
    path: str,
    *,
    query: str | bytes = "",
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
    parts: Sequence[bytes] | None = None,
    receive: Callable[[], Awaitable[Message]] | None = None,
    client: str = "127.0.0.1",
    host: str | None = HOST,
    **fields: Any,
) -> Reply:
    """A request with these fields as JSON, this body, or these parts of a chunked one. `receive` replaces the client."""
    sent = {name.lower(): value for name, value in (headers or {}).items()}
    if host is not None:
        sent.setdefault("host", host)
    if fields:
        body = json.dumps(fields).encode()
        sent.setdefault("content-type", "application/json")
    if parts is not None:
        sent.setdefault("transfer-encoding", "chunked")
    elif body is not None:
        sent.setdefault("content-length", str(len(body)))
    messages = _requests(parts if parts is not None else [body or b""])

    async def usual() -> Message:
        if messages:
            return messages.pop(0)
        await asyncio.Event().wait()  # the client stays
        raise AssertionError

    seen: list[Message] = []

    async def send(message: Message) -> None:
        seen.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode() if isinstance(query, str) else query,
        "root_path": "",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
        "client": (client, 4321),
        "server": ("127.0.0.1", 5000),
    }
    await app(scope, receive or usual, send)
    if not seen:
        return Reply(0, {}, b"", False)
    start, *rest = seen
    names = [name.decode() for name, _ in start["headers"]]
    assert len(names) == len(set(names)), f"a header twice: {names}"
    headers_seen = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    whole = bool(rest) and not rest[-1].get("more_body", False)
    return Reply(start["status"], headers_seen, b"".join(part.get("body", b"") for part in rest), whole)


def form(**fields: str) -> dict[str, Any]:
    """A form, as arguments of `call`."""
    return {"body": urlencode(fields).encode(), "headers": {"Content-Type": FORM}}


def _requests(parts: Sequence[bytes]) -> list[Message]:
    last = len(parts) - 1
    return [{"type": "http.request", "body": part, "more_body": n < last} for n, part in enumerate(parts)]
