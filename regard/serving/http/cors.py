"""CORS: which web pages may call the server. Programs send no Origin header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from regard.errors import UserError
from regard.serving.http.http_error import HttpError

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@\s]+")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
EXPOSED = "Retry-After, X-Request-ID"
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
}


class CorsPolicy:
    """Allowed origins, always without credentials: a page has to send an API key itself. "*" includes null origins."""

    def __init__(self, allowed: Sequence[str]):
        self.allowed = {origin.lower().rstrip("/") for origin in allowed}
        self.any = "*" in self.allowed
        for origin in self.allowed - {"*"}:
            if not _ORIGIN.fullmatch(origin):
                raise UserError(f"'{origin}' is not an origin; write it like https://example.org, or * for every site")

    @property
    def vary(self) -> bool:
        """Whether responses depend on the Origin header (Vary)."""
        return bool(self.allowed) and not self.any

    def check(self, headers: Headers, host: str) -> dict[str, str]:
        """The CORS headers of the response; raises 403 for a foreign origin."""
        given = headers.getlist("origin")
        if not given:
            return {}
        origin = given[0].lower() if len(given) == 1 else ""
        if self.any or origin in self.allowed:
            allowed = "*" if self.any else given[0]
            return {"Access-Control-Allow-Origin": allowed, "Access-Control-Expose-Headers": EXPOSED}
        if not is_own(origin, host):
            raise HttpError(403, "Pages of other sites may not use this server")
        return {}


def is_preflight(method: str, headers: Headers) -> bool:
    return method == "OPTIONS" and "origin" in headers and "access-control-request-method" in headers


def is_own(origin: str, host: str) -> bool:
    """Whether a page came from this server. The scheme may differ: a proxy may add https."""
    if not _ORIGIN.fullmatch(origin):
        return False
    scheme, place = urlsplit(origin)[:2]
    port = f":{_DEFAULT_PORTS.get(scheme, '')}"
    return place.removesuffix(port) == host.lower().removesuffix(port)
