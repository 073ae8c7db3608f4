"""HTTP clients on plain sockets, for tests that need many clients or misbehaving ones."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float

    def json(self) -> Any:
        return json.loads(self.body)


def request_bytes(method: str, path: str, body: bytes = b"", host: str = "127.0.0.1", **headers: str) -> bytes:
    fields = {"Host": host, "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(url)
    return await asyncio.open_connection(parts.hostname, parts.port)


async def reply(reader: asyncio.StreamReader, since: float) -> Reply:
    """Reads one response; raises if the connection ends early."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Reply(int(head[0].split()[1]), headers, body, time.monotonic() - since)


class Client:
    """A client with a persistent connection."""

    def __init__(self, url: str):
        self.url = url
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
        since = time.monotonic()
        kept = self._open is not None
        if self._open is None:
            self._open = await connect(self.url)
        reader, writer = self._open
        try:
            writer.write(request_bytes(method, path, body, **headers))
            await writer.drain()
            found = await reply(reader, since)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.close()
            if not kept:
                raise
            return await self.send(method, path, body, **headers)  # an idle connection may be closed at any time
        if found.headers.get("connection") == "close":
            self.close()
        return found

    async def translate(self, text: str | list[str], **more: Any) -> Reply:
        asked = {"q": text, "source": "fr", "target": "en", **more}
        return await self.send("POST", "/translate", json.dumps(asked).encode())

    def close(self) -> None:
        if self._open:
            self._open[1].close()
            self._open = None


def at_once(url: str, count: int, work: Callable[[Client, int], Awaitable[Any]]) -> list[Any]:
    """The results of `count` concurrent clients, each with its own connection."""

    async def all_of_them() -> list[Any]:
        clients = [Client(url) for _ in range(count)]
        try:
            return await asyncio.gather(*(work(client, number) for number, client in enumerate(clients)))
        finally:
            for client in clients:
                client.close()

    return asyncio.run(all_of_them())


PROBE = """
import json, sys, time
from http.client import HTTPConnection
host, times, end = sys.argv[1].split("//")[1], [], time.monotonic() + float(sys.argv[2])
connection = HTTPConnection(host)
while time.monotonic() < end:
    start = time.monotonic()
    connection.request("GET", "/health")
    assert connection.getresponse().read() == b'{"status":"ok"}'
    times.append(time.monotonic() - start)
    time.sleep(0.02)
print(json.dumps(times))
"""
"""A client that asks for /health, as a process of its own: the load of the others does not hold up its clock."""


@dataclass
class Seen:
    """Latencies of well-behaved clients during abuse, in ascending order."""

    health: list[float]
    innocent: list[float]

    def health_p99(self) -> float:
        return self.health[int(0.99 * len(self.health))]


def abused(url: str, seconds: float, abuse: Callable[[str, float], Awaitable[None]], count: int = 4) -> Seen:
    """`count` clients run `abuse(url, end)` at the same time. /health is asked by a process of its own, whose clock the
    load does not hold up; a translation by one more client."""
    end = time.monotonic() + seconds
    innocent: list[float] = []

    async def ask() -> None:
        client = Client(url)
        while time.monotonic() < end:
            found = await client.translate("Bonjour.")
            assert found.status == 200, found
            innocent.append(found.seconds)
            await asyncio.sleep(0.05)
        client.close()

    async def all_of_them() -> None:
        await asyncio.gather(ask(), *(abuse(url, end) for _ in range(count)))

    command = [sys.executable, "-c", PROBE, url, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as probing:
        asyncio.run(all_of_them())
        health = json.loads(probing.communicate(timeout=60)[0])
    return Seen(sorted(health), sorted(innocent))
