"""A request's body: read whole before anything is done with it, and never more of it than is allowed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Receive

from regard.serving.http.disconnect import Gone
from regard.serving.http.problem import Problem
from regard.serving.settings import MEBIBYTE, Settings

LONGEST_QUERY = 64 * 1024
"""Bytes. Some clients send all their text in the address."""


@dataclass
class Room:
    """What one body takes."""

    taken: int = 0
    keyless: int = 0
    """Bytes of it that were read before it was known whose they are."""
    waited_for: bool = True
    """Whether more of it is to come."""


class Sizes:
    """`seconds` is for a whole body, so that one that trickles in holds nothing for long; `together` is what all
    bodies may hold at one time. Those that are read to find out whose they are may hold an eighth of it."""

    def __init__(self, settings: Settings, seconds: float = 20.0, together: int = 256 * MEBIBYTE):
        self.text_limit, self.body_limit = settings.text_limit, settings.body_limit
        self.seconds, self.together = seconds, together
        self.held = self.held_keyless = 0

    def check(self, headers: Headers, query: bytes) -> None:
        """All that can be told before a byte of the body is read."""
        if len(query) > LONGEST_QUERY:
            raise Problem(414, f"The address is longer than this server takes ({LONGEST_QUERY} bytes)")
        if any(coding.lower() != "identity" for coding in headers.getlist("content-encoding")):
            raise Problem(415, "Compressed bodies are not accepted", {"Accept-Encoding": "identity"})
        declared = _declared(headers)
        if declared is not None:
            self._check_size(declared, headers)

    @contextmanager
    def room(self) -> Iterator[Room]:
        """What a request's body takes counts until the request is over."""
        room = Room()
        try:
            yield room
        finally:
            self.held -= room.taken
            self.know(room)

    def know(self, room: Room) -> None:
        """Whose body it is."""
        self.held_keyless, room.keyless = self.held_keyless - room.keyless, 0

    async def read(self, headers: Headers, receive: Receive, room: Room, keyless: bool = False) -> bytes:
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Gone
                    part, room.waited_for = message.get("body", b""), message.get("more_body", False)
                    self._check_size(room.taken + len(part), headers)
                    too_many = keyless and self.held_keyless + len(part) > self.together // 8
                    if too_many or self.held + len(part) > self.together:
                        raise Problem(503, "The server is busy with other large requests", {"Retry-After": "2"})
                    self.held += len(part)
                    room.taken += len(part)
                    if keyless:
                        self.held_keyless += len(part)
                        room.keyless += len(part)
                    parts.append(part)
                    if not room.waited_for:
                        break
        except TimeoutError:
            room.waited_for = False
            late = f"The body did not arrive within {self.seconds:g} s"
            raise Problem(408, late, {"Connection": "close"}) from None
        if _declared(headers) not in (None, room.taken):
            raise Problem(400, "The body is not as long as its Content-Length says")
        return b"".join(parts)

    def _check_size(self, size: int, headers: Headers) -> None:
        limit = self.text_limit if is_text(headers) else self.body_limit
        if 0 <= limit < size:
            raise Problem(413, f"The body is larger than this server takes ({limit} bytes)")


def is_text(headers: Headers) -> bool:
    """Whether the body holds fields, in JSON or as a form, or says nothing of what it is: short in any case."""
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
        raise Problem(400, "The Content-Length is not a number of bytes")
    return int(value)
