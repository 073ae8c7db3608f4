"""Checks the Host header. In a DNS rebinding attack a page of another site still sends its own name there, so on a
loopback address foreign names are refused."""

from __future__ import annotations

import ipaddress
import re

from starlette.datastructures import Headers

from regard.serving.http.http_error import HttpError
from regard.serving.settings import Settings

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
ANY_ADDRESS = frozenset({"", "0.0.0.0", "[::]"})


class AllowedHosts:
    """400 for a missing or malformed Host header, 403 for a foreign one."""

    def __init__(self, settings: Settings):
        own = _normalised(settings.host)
        self.allowed: frozenset[str] | None = None
        """None means any."""
        if is_loopback(settings.host) or settings.allow_hosts:
            listed = {_normalised(name) for name in settings.allow_hosts}
            self.allowed = LOOPBACK | listed | ({own} - ANY_ADDRESS)

    def check(self, headers: Headers) -> str:
        """The Host header, if it is allowed."""
        given = headers.getlist("host")
        if len(given) != 1 or not _HOST.fullmatch(given[0]):
            raise HttpError(400, "The Host header is missing or malformed")
        if self.allowed is not None and _normalised(given[0]) not in self.allowed:
            raise HttpError(403, "This server does not answer to that host name")
        return given[0]


def is_loopback(host: str) -> bool:
    name = _normalised(host)
    try:
        return name == "localhost" or ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def _normalised(host: str) -> str:
    """The host name without port, in a canonical form."""
    name = host.strip().lower()
    if name.count(":") > 1 and not name.startswith("["):
        name = f"[{name}]"  # an IPv6 address without brackets
    name = re.sub(r":[0-9]*$", "", name) if not name.endswith("]") else name
    try:
        return f"[{ipaddress.IPv6Address(name.strip('[]'))}]" if name.startswith("[") else name.rstrip(".")
    except ValueError:
        return name
