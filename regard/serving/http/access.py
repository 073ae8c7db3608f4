"""Access control: the checks that a request must pass, in this order, before it reaches a route."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.http.allowed_hosts import AllowedHosts, is_loopback
from regard.serving.http.api_keys import ApiKeys, key_in_fields, key_in_header
from regard.serving.http.client_address import ClientAddresses
from regard.serving.http.cors import PREFLIGHT, CorsPolicy, is_preflight
from regard.serving.http.disconnect import run_until_disconnect
from regard.serving.http.health import HEALTH_PATHS
from regard.serving.http.http_error import HttpError
from regard.serving.http.rate_limit import RateLimiter, is_limited
from regard.serving.http.request_body import BodyLimits, BodyUsage, has_body, is_text
from regard.serving.http.request_fields import fields_of, query_fields
from regard.serving.http.routing import is_below, path_of
from regard.serving.http.shared_state import SharedState
from regard.serving.settings import Settings
from regard.serving.state import KeyStatus, digest_of, keys_required


class AccessMiddleware:
    """Checks path prefix, host, origin, API key, rate and body; sets `owner` (of the API key) in its state."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        cors: CorsPolicy,
        addresses: ClientAddresses,
        body_limits: BodyLimits,
        shared: SharedState | None = None,
    ):
        self.app, self.settings, self.body_limits = app, settings, body_limits
        self.cors, self.addresses = cors, addresses
        self.hosts, self.keys, self.shared = AllowedHosts(settings), ApiKeys(settings, shared), shared
        self.rate_limiter = RateLimiter(settings.req_limit)
        self.prefix = prefix_of(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._handle(scope, receive, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, state = Headers(scope=scope), scope["state"]
        state["owner"] = ""
        state["unread"] = has_body(headers)
        if not is_below(scope["path"], self.prefix):
            raise HttpError(404, "Not found")
        scope["root_path"] = self.prefix
        host = self.hosts.check(headers)
        state["vary_origin"] = self.cors.vary
        state["cors"] = self.cors.check(headers, host)
        if is_preflight(scope["method"], headers):
            await Response(status_code=204, headers=PREFLIGHT if state["cors"] else {})(scope, receive, send)
            return
        path = path_of(scope)
        if scope["app"].state.refusing and path not in HEALTH_PATHS:
            raise HttpError(503, "The server is stopping", {"Retry-After": "5", "Connection": "close"})
        with self.body_limits.usage() as usage:
            body = await self._authorised_body(scope, headers, receive, usage)
            await run_until_disconnect(self.app, scope, body, receive, send, self.settings.timeout)

    async def _authorised_body(self, scope: Scope, headers: Headers, receive: Receive, usage: BodyUsage) -> bytes:
        """The body of an authorised request. It is read before authorisation only if it may contain the API key."""
        path, query, state = path_of(scope), scope["query_string"], scope["state"]
        key, error = key_in_header(headers), None
        body: bytes | None = None
        status = KeyStatus(False, False)
        try:
            self.body_limits.check(headers, query, path)
        except HttpError as caught:
            error = caught  # raised below, since the request still counts
        try:
            status = await self.keys.status(path, key)
            if key is None and status.required and not error:
                key = key_in_fields(query_fields(query))
                if key is None and is_text(headers) and has_body(headers):
                    body = await self._read(scope, headers, receive, usage, unauthenticated=True)
                    key = key_in_fields(await fields_of(Request(scope, _body_only(body))))
                if key is not None:
                    status = await self.keys.status(path, key)
        except HttpError as caught:
            error = error or caught
        state["owner"] = digest_of(key) if key and status.known else ""
        if is_limited(path):
            client = state["owner"] or self.addresses.of(scope.get("client"), headers)
            await self.rate_limiter.count_shared(client, self.shared)
        if error:
            raise error
        self.keys.check(path, key, status)
        self.body_limits.authenticated(usage)
        return body if body is not None else await self._read(scope, headers, receive, usage)

    async def _read(
        self, scope: Scope, headers: Headers, receive: Receive, usage: BodyUsage, unauthenticated: bool = False
    ) -> bytes:
        try:
            return await self.body_limits.read(headers, receive, usage, unauthenticated, path_of(scope))
        finally:
            scope["state"]["unread"] = usage.incomplete


def warning(settings: Settings) -> str | None:
    """The warning for a server that is reachable from the network without API keys."""
    if is_loopback(settings.host) or settings.api_keys or (settings.state and keys_required(settings.state)):
        return None
    return (
        f"anyone who can reach {settings.host or 'any address of this machine'}, port {settings.port}, can use this "
        "server: set API keys, or listen on 127.0.0.1"
    )


def prefix_of(settings: Settings) -> str:
    stem = settings.url_prefix.strip("/ ")
    return f"/{stem}" if stem else ""


def _body_only(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
