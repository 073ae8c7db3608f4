"""Opens addresses of data sets: follows only redirects that are allowed, and tells the sockets that it uses."""

from __future__ import annotations

import http.client
import socket
import urllib.request
from collections.abc import Callable
from typing import Any

from regard.data.datasets import check_address, on_this_machine

Connected = Callable[[socket.socket], None]


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows only where `check_address` lets it."""

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
        return self.do_open(_telling(http.client.HTTPConnection, self._connected), req)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, connected: Connected) -> None:
        super().__init__()
        self._connected = connected

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_telling(http.client.HTTPSConnection, self._connected), req)


def _telling(kind: type[http.client.HTTPConnection], connected: Connected) -> Any:
    """A connection that tells its socket, which the library keeps to itself."""

    class Telling(kind):  # type: ignore[misc, valid-type]
        def connect(self) -> None:
            super().connect()
            connected(self.sock)

    return Telling


def opener(url: str, connected: Connected) -> urllib.request.OpenerDirector:
    check_address(url)
    proxies = urllib.request.ProxyHandler({} if on_this_machine(url) else None)
    return urllib.request.build_opener(proxies, Redirects(), _Plain(connected), _Secure(connected))
