"""A URL opener that follows only allowed redirects and exposes its sockets, so that a watchdog can close them."""

from __future__ import annotations

import http.client
import socket
import urllib.request
from collections.abc import Callable
from typing import Any

from regard.data.datasets import check_address, on_this_machine

Connected = Callable[[socket.socket], None]


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows only redirects that `check_address` allows."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        check_address(newurl, req.full_url)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, connected: Connected) -> None:
        super().__init__()
        self._connected = connected

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_exposing(http.client.HTTPConnection, self._connected), req)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, connected: Connected) -> None:
        super().__init__()
        self._connected = connected

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_exposing(http.client.HTTPSConnection, self._connected), req)


def _exposing(kind: type[http.client.HTTPConnection], connected: Connected) -> Any:
    """A connection class that passes its socket to `connected`; the library keeps it private."""

    class Exposing(kind):  # type: ignore[misc, valid-type]
        def connect(self) -> None:
            super().connect()
            connected(self.sock)

    return Exposing


def opener(url: str, connected: Connected) -> urllib.request.OpenerDirector:
    check_address(url)
    proxies = urllib.request.ProxyHandler({} if on_this_machine(url) else None)
    return urllib.request.build_opener(proxies, Redirects(), _Plain(connected), _Secure(connected))
