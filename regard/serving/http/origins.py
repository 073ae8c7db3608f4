"""Which web pages may call the server: its own, and those of the sites it is told (CORS). Programs send no Origin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from regard.errors import UserError
from regard.serving.http.problem import Problem

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@\s]+")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
EXPOSED = "Retry-After, X-Request-ID"
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
}


class Origins:
    """Never with credentials: a page has to say a key itself. With "*" any page may ask, also one without origin."""

    def __init__(self, allowed: Sequence[str]):
        self.allowed = {origin.lower().rstrip("/") for origin in allowed}
        self.any = "*" in self.allowed
        for origin in self.allowed - {"*"}:
            if not _ORIGIN.fullmatch(origin):
                raise UserError(f"'{origin}' is no origin; write it like https://example.org, or * for every site")

    @property
    def matter(self) -> bool:
        """Whether answers depend on who asks, which caches have to know."""
        return bool(self.allowed) and not self.any

    def check(self, headers: Headers, host: str) -> dict[str, str]:
        """The headers that tell a browser it may show the answer to the page that asked."""
        given = headers.getlist("origin")
        if not given:
            return {}
        origin = given[0].lower() if len(given) == 1 else ""
        if self.any or origin in self.allowed:
            shown = "*" if self.any else given[0]
            return {"Access-Control-Allow-Origin": shown, "Access-Control-Expose-Headers": EXPOSED}
        if not is_own(origin, host):
            raise Problem(403, "Pages of other sites may not use this server")
        return {}


def is_preflight(method: str, headers: Headers) -> bool:
    return method == "OPTIONS" and "origin" in headers and "access-control-request-method" in headers


def is_own(origin: str, host: str) -> bool:
    """Whether a page came from this server. The scheme may be another than ours: a proxy may speak https for us."""
    if not _ORIGIN.fullmatch(origin):
        return False
    scheme, place = urlsplit(origin)[:2]
    port = f":{_DEFAULT_PORTS.get(scheme, '')}"
    return place.removesuffix(port) == host.lower().removesuffix(port)
