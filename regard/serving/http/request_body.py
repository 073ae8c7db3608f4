"""Reads request bodies within limits of size, time and total memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Receive

from regard.serving.http.disconnect import ClientDisconnected
from regard.serving.http.http_error import HttpError
from regard.serving.settings import MEBIBYTE, Settings

UPLOAD_PATHS = frozenset({"/translate_file", "/v2/document"})
"""Paths whose forms hold a file: the limit of other bodies applies."""
MAX_QUERY_BYTES = 64 * 1024
"""Some clients send all their text in the query string."""


@dataclass
class BodyUsage:
    """Memory that one body holds."""

    size: int = 0
    unauthenticated: int = 0
    """Bytes read before the sender's API key was known."""
    incomplete: bool = True
    """Whether more of the body is to come."""


class BodyLimits:
    """`seconds` is the time for a whole body, so that slow ones hold memory only briefly; `total` is the memory of all
    bodies. Bodies that must be read to find the API key may hold an eighth of it."""

    def __init__(self, settings: Settings, seconds: float = 20.0, total: int = 256 * MEBIBYTE):
        self.text_limit, self.body_limit = settings.text_limit, settings.body_limit
        self.seconds, self.total = seconds, total
        self.held = self.held_unauthenticated = 0

    def check(self, headers: Headers, query: bytes, path: str = "") -> None:
        """Checks that need only the headers and the query string."""
        if len(query) > MAX_QUERY_BYTES:
            raise HttpError(414, f"The URL is longer than this server takes ({MAX_QUERY_BYTES} bytes)")
        if any(coding.lower() != "identity" for coding in headers.getlist("content-encoding")):
            raise HttpError(415, "Compressed bodies are not accepted", {"Accept-Encoding": "identity"})
        declared = _declared(headers)
        if declared is not None:
            self._check_size(declared, headers, path)

    @contextmanager
    def usage(self) -> Iterator[BodyUsage]:
        """Accounts for the memory of a request's body until the request ends."""
        usage = BodyUsage()
        try:
            yield usage
        finally:
            self.held -= usage.size
            self.authenticated(usage)

    def authenticated(self, usage: BodyUsage) -> None:
        """The sender is known: the body no longer counts as unauthenticated."""
        self.held_unauthenticated, usage.unauthenticated = self.held_unauthenticated - usage.unauthenticated, 0

    async def read(
        self, headers: Headers, receive: Receive, usage: BodyUsage, unauthenticated: bool = False, path: str = ""
    ) -> bytes:
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnected
                    part, usage.incomplete = message.get("body", b""), message.get("more_body", False)
                    self._check_size(usage.size + len(part), headers, path)
                    too_much = unauthenticated and self.held_unauthenticated + len(part) > self.total // 8
                    if too_much or self.held + len(part) > self.total:
                        raise HttpError(503, "The server is busy with other large requests", {"Retry-After": "2"})
                    self.held += len(part)
                    usage.size += len(part)
                    if unauthenticated:
                        self.held_unauthenticated += len(part)
                        usage.unauthenticated += len(part)
                    parts.append(part)
                    if not usage.incomplete:
                        break
        except TimeoutError:
            usage.incomplete = False
            late = f"The body did not arrive within {self.seconds:g} s"
            raise HttpError(408, late, {"Connection": "close"}) from None
        if _declared(headers) not in (None, usage.size):
            raise HttpError(400, "The body is not as long as its Content-Length says")
        return b"".join(parts)

    def _check_size(self, size: int, headers: Headers, path: str) -> None:
        is_upload = path in UPLOAD_PATHS and media_type(headers) == "multipart/form-data"
        limit = self.text_limit if is_text(headers) and not is_upload else self.body_limit
        if 0 <= limit < size:
            raise HttpError(413, f"The body is larger than this server takes ({limit} bytes)")


def is_text(headers: Headers) -> bool:
    """Whether the body holds fields (JSON or a form) or has no Content-Type: the text limit applies."""
    kind = media_type(headers)
    return kind in ("", "application/x-www-form-urlencoded", "multipart/form-data") or is_json(kind)


def media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json(kind: str) -> bool:
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _declared(headers: Headers) -> int | None:
    given = set(headers.getlist("content-length"))
    if not given:
        return None
    value = given.pop()
    if given or not re.fullmatch(r"[0-9]{1,18}", value):
        raise HttpError(400, "The Content-Length is not a number of bytes")
    return int(value)
