"""What a request passes before a route sees it, in this order; the first that says no ends it."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.http.body import Room, Sizes, has_body, is_text
from regard.serving.http.client_address import Addresses
from regard.serving.http.disconnect import while_wanted
from regard.serving.http.hosts import Hosts, is_loopback
from regard.serving.http.keys import Keys, key_in_fields, key_in_header
from regard.serving.http.origins import PREFLIGHT, Origins, is_preflight
from regard.serving.http.problem import Problem
from regard.serving.http.rate_limit import FREE, Rates
from regard.serving.http.request_fields import fields_of, query_fields
from regard.serving.http.routing import is_below, path_of
from regard.serving.settings import Settings


class Doors:
    """Told in a request's state: `owner`, which says whose key was used, empty without keys."""

    def __init__(self, app: ASGIApp, settings: Settings, origins: Origins, addresses: Addresses, sizes: Sizes):
        self.app, self.settings, self.sizes = app, settings, sizes
        self.origins, self.addresses = origins, addresses
        self.hosts, self.keys, self.rates = Hosts(settings), Keys(settings), Rates(settings.req_limit)
        self.prefix = prefix_of(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._pass(scope, receive, send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, state = Headers(scope=scope), scope["state"]
        state["owner"] = ""
        state["unread"] = has_body(headers)
        if not is_below(scope["path"], self.prefix):
            raise Problem(404, "Not found")
        scope["root_path"] = self.prefix
        host = self.hosts.check(headers)
        state["by_origin"] = self.origins.matter
        state["cors"] = self.origins.check(headers, host)
        if is_preflight(scope["method"], headers):
            await Response(status_code=204, headers=PREFLIGHT if state["cors"] else {})(scope, receive, send)
            return
        path = path_of(scope)
        if scope["app"].state.draining and path != "/health":
            raise Problem(503, "The server is stopping", {"Retry-After": "5", "Connection": "close"})
        with self.sizes.room() as room:
            body = await self._admitted(scope, headers, receive, room)
            await while_wanted(self.app, scope, body, receive, send, self.settings.timeout)

    async def _admitted(self, scope: Scope, headers: Headers, receive: Receive, room: Room) -> bytes:
        """The body, of one who may ask. It is read before that is known only where it may be what holds the key."""
        path, query, state = path_of(scope), scope["query_string"], scope["state"]
        given, problem = key_in_header(headers), None
        body: bytes | None = None
        try:
            self.sizes.check(headers, query)
            if given is None and self.keys.wanted(path):
                given = key_in_fields(query_fields(query))
                if given is None and is_text(headers) and has_body(headers):
                    body = await self._read(scope, headers, receive, room, keyless=True)
                    given = key_in_fields(await fields_of(Request(scope, _body_only(body))))
        except Problem as error:
            problem = error  # it counts all the same
        state["owner"] = self.keys.owner(given)
        if path not in FREE:
            self.rates.count(state["owner"] or self.addresses.of(scope.get("client"), headers))
        if problem:
            raise problem
        self.keys.check(path, given, state["owner"])
        self.sizes.know(room)
        return body if body is not None else await self._read(scope, headers, receive, room)

    async def _read(self, scope: Scope, headers: Headers, receive: Receive, room: Room, keyless: bool = False) -> bytes:
        try:
            return await self.sizes.read(headers, receive, room, keyless)
        finally:
            scope["state"]["unread"] = room.waited_for


def warning(settings: Settings) -> str | None:
    """What somebody who starts a server with these settings should be told."""
    if is_loopback(settings.host) or settings.api_keys:
        return None
    return (
        f"whoever can reach {settings.host or 'any address of this machine'}, port {settings.port}, may use this "
        "server: set API keys, or listen at 127.0.0.1"
    )


def prefix_of(settings: Settings) -> str:
    stem = settings.url_prefix.strip("/ ")
    return f"/{stem}" if stem else ""


def _body_only(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
