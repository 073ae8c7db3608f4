"""Cancels a request when its client disconnects or its time is up."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.http.http_error import HttpError


class ClientDisconnected(Exception):
    """The client closed the connection; there is nobody to respond to."""


async def run_until_disconnect(
    app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send, seconds: float
) -> None:
    """Runs the app with a body that was already read. When the client disconnects or the time is up, the app's task is
    cancelled, and with it the jobs that it awaits."""
    disconnected = asyncio.Event()
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        if unread:
            return unread.pop()
        await disconnected.wait()
        return {"type": "http.disconnect"}

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        disconnected.set()

    work = asyncio.ensure_future(app(scope, replay, send))
    watching = asyncio.ensure_future(watch())
    try:
        limit = seconds if seconds >= 0 else None
        await asyncio.wait({work, watching}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
    finally:
        for task in (work, watching):
            task.cancel()
        await asyncio.gather(work, watching, return_exceptions=True)
    if disconnected.is_set():
        raise ClientDisconnected
    raise HttpError(504, f"The request took longer than {seconds:g} s and was aborted (request {scope['state']['id']})")
