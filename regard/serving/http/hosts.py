"""Whom a request believes it is talking to. A page of another site whose name was made to mean this machine (DNS
rebinding) still sends its own name in the Host header: on a loopback address such names are refused."""

from __future__ import annotations

import ipaddress
import re

from starlette.datastructures import Headers

from regard.serving.http.problem import Problem
from regard.serving.settings import Settings

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
ANY_ADDRESS = frozenset({"", "0.0.0.0", "[::]"})


class Hosts:
    """Missing or malformed: 400. Foreign: 403."""

    def __init__(self, settings: Settings):
        own = _plain(settings.host)
        self.allowed: frozenset[str] | None = None
        """None: any."""
        if is_loopback(settings.host) or settings.allow_hosts:
            listed = {_plain(name) for name in settings.allow_hosts}
            self.allowed = LOOPBACK | listed | ({own} - ANY_ADDRESS)

    def check(self, headers: Headers) -> str:
        """The Host header, when it may stay."""
        given = headers.getlist("host")
        if len(given) != 1 or not _HOST.fullmatch(given[0]):
            raise Problem(400, "The Host header is missing or malformed")
        if self.allowed is not None and _plain(given[0]) not in self.allowed:
            raise Problem(403, "This server does not answer to that host name")
        return given[0]


def is_loopback(host: str) -> bool:
    name = _plain(host)
    try:
        return name == "localhost" or ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def _plain(host: str) -> str:
    """The name alone, without port, in the one form that is compared."""
    name = host.strip().lower()
    if name.count(":") > 1 and not name.startswith("["):
        name = f"[{name}]"  # an IPv6 address as people write it in settings
    name = re.sub(r":[0-9]*$", "", name) if not name.endswith("]") else name
    try:
        return f"[{ipaddress.IPv6Address(name.strip('[]'))}]" if name.startswith("[") else name.rstrip(".")
    except ValueError:
        return name
