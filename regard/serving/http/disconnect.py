"""A request is worked on only while somebody waits for its answer, and not for longer than it may take."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.http.problem import Problem


class Gone(Exception):
    """The client hung up: there is nobody left to tell."""


async def while_wanted(app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send, seconds: float) -> None:
    """Runs the route with the body that was read. When the client goes away or the time is over, the route's task is
    cancelled, and with it whatever it awaits: the engine takes back what nobody waits for."""
    gone = asyncio.Event()
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        if whole:
            return whole.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

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
    if gone.is_set():
        raise Gone
    raise Problem(504, f"The request took longer than {seconds:g} s and was ended (request {scope['state']['id']})")
