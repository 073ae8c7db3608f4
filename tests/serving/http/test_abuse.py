"""Clients that try to keep the HTTP process from answering others: `regard serve`'s own HTTP, mostly with a pool that
answers at once (fake_server.py)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from serving.calling import FORM, Message, call, guarded
from serving.load import Client, Reply, abused, connect, reply, request_bytes
from serving.running import ROOT, Running, fake_server, running_server

from regard.serving.http.connections import FREE_CHUNKS, MIN_CHUNK_BYTES, connection_limits

CHUNKED = b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
UNFINISHED = CHUNKED.replace(b"Transfer-Encoding: chunked", b"Content-Length: 1000")
"""A request whose body never arrives."""


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with fake_server() as running:
        yield running


def chunked(body: bytes, size: int) -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


async def ask_raw(url: str, sent: bytes) -> Reply:
    reader, writer = await connect(url)
    try:
        with suppress(ConnectionError):
            writer.write(sent)
            await writer.drain()
        return await reply(reader, time.monotonic())
    finally:
        writer.close()


def body_of(length: int) -> bytes:
    body = json.dumps({"q": "a", "source": "fr", "target": "en"}).encode()
    return body + b" " * (length - len(body))


# Tiny chunks


@pytest.mark.parametrize(
    "size, length", [(1, FREE_CHUNKS), (MIN_CHUNK_BYTES, 3000 * MIN_CHUNK_BYTES), (50_000, 150_000)]
)
def test_a_body_in_chunks_is_read(server: Running, size: int, length: int) -> None:
    found = asyncio.run(ask_raw(server, CHUNKED + chunked(body_of(length), size)))
    assert (found.status, found.json()) == (200, {"translatedText": "A"})


@pytest.mark.parametrize("size", [1, MIN_CHUNK_BYTES - 1])
def test_a_body_of_many_tiny_chunks_is_refused(server: Running, size: int) -> None:
    async def test() -> Reply:
        reader, writer = await connect(server)
        writer.write(CHUNKED + chunked(body_of((FREE_CHUNKS + 20) * size), size)[:-5])
        try:
            found = await reply(reader, time.monotonic())
            assert not await asyncio.wait_for(reader.read(), 10), "the connection is closed"
            return found
        finally:
            writer.close()

    found = asyncio.run(test())
    assert (found.status, found.json()) == (400, {"error": "The body has too many small chunks."})


def test_tiny_chunks_for_a_request_that_was_refused_end_the_connection() -> None:
    with fake_server(api_keys=["k"]) as server:

        async def test() -> float:
            reader, writer = await connect(server)
            writer.write(CHUNKED.replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer wrong\r\n\r\n"))
            found = await reply(reader, time.monotonic())
            assert (found.status, found.headers["connection"]) == (403, "close")
            start = time.monotonic()
            with suppress(ConnectionError):
                while not reader.at_eof():
                    writer.write(b"1\r\nA\r\n" * 1000)
                    await writer.drain()
                    await asyncio.sleep(0.001)
            writer.close()
            return time.monotonic() - start

        assert asyncio.run(test()) < 5
        assert asyncio.run(Client(server).send("GET", "/health")).status == 200
        assert not [line for line in server.said if "Traceback" in line or "Error" in line]


# API keys and rate limits before bodies


def refused_unread(app: Any, status: int, **request: Any) -> None:
    """Asserts that nothing of a request's body is read before it is refused with this status."""

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        seen: list[Message] = []

        async def see(message: Message) -> None:
            seen.append(message)
            await send(message)

        async def read() -> Message:
            assert seen, "read before it is refused"
            return {"type": "http.disconnect"}

        await app(scope, read, see)

    assert call(watched, "POST", "/fields", **request).status == status


@pytest.mark.parametrize(
    "headers, query, status",
    [
        ({"Authorization": "Bearer wrong", "Transfer-Encoding": "chunked"}, "", 403),
        ({"Content-Length": "100"}, "api_key=wrong", 403),
        ({"Content-Type": "image/png", "Content-Length": "100"}, "", 400),
        ({"Content-Length": "0"}, "", 400),
        ({"Authorization": "Bearer k", "Content-Length": str(10**9)}, "", 413),
    ],
)
def test_a_key_that_is_wrong_or_missing_for_certain_is_refused_before_the_body_is_read(
    headers: dict[str, str], query: str, status: int
) -> None:
    sent = {"Content-Type": "application/json", **headers}
    refused_unread(guarded(api_keys=("k",)), status, headers=sent, query=query)


def test_a_rate_limit_is_checked_before_the_body_is_read() -> None:
    app = guarded(req_limit=1)
    assert call(app, "POST", "/fields", q="a").status == 200
    refused_unread(app, 429, headers={"Content-Length": "5"})


def test_a_key_in_a_field_still_works() -> None:
    app = guarded(api_keys=("k",))
    assert call(app, "POST", "/fields", q="a", api_key="k").status == 200
    assert call(app, "POST", "/fields", body=b"q=a&api_key=k", headers={"Content-Type": FORM}).status == 200
    assert call(app, "POST", "/fields", query="api_key=k", q="a").json()["fields"]["q"] == "a"
    assert call(app, "POST", "/fields", q="a", api_key="wrong").status == 403
    assert call(app, "POST", "/fields", q="a").status == 400


# Latency under abuse


async def stream_chunks(url: str, end: float, chunk: bytes = b"A") -> None:
    unit = b"%x\r\n%s\r\n" % (len(chunk), chunk)
    while time.monotonic() < end:
        _, writer = await connect(url)
        with suppress(ConnectionError):
            writer.write(CHUNKED)
            while time.monotonic() < end:
                writer.write(unit * 10_000)
                await writer.drain()
        writer.close()


async def stream_larger_chunks(url: str, end: float) -> None:
    await stream_chunks(url, end, b"A" * (MIN_CHUNK_BYTES + 1))


async def stream_refused_body(url: str, end: float) -> None:
    while time.monotonic() < end:
        _, writer = await connect(url)
        with suppress(ConnectionError):
            writer.write(UNFINISHED.replace(b"1000", b"999999999999"))
            while time.monotonic() < end:
                writer.write(b"A" * 200_000)
                await writer.drain()
        writer.close()


def send_text(text: str, **more: Any) -> Callable[[str, float], Awaitable[None]]:
    async def send(url: str, end: float) -> None:
        client = Client(url)
        while time.monotonic() < end:
            assert (await client.translate(text, **more)).status in (200, 400, 503)
        client.close()

    return send


def send_body(body: bytes) -> Callable[[str, float], Awaitable[None]]:
    async def send(url: str, end: float) -> None:
        client = Client(url)
        while time.monotonic() < end:
            assert (await client.send("POST", "/translate", body)).status == 400
        client.close()

    return send


ABUSE = {
    "one-byte chunks": stream_chunks,
    "larger chunks": stream_larger_chunks,
    "a body that is refused": stream_refused_body,
    "many values": send_body(b'{"q": [' + b"[]," * 340_000 + b"1]}"),
    "escapes": send_body(b'{"q": "' + rb"\u00e9" * 170_000 + b'"}'),
    "mentions": send_text("a @b " * 19_800),
    "open tags": send_text("<a " * 33_000, format="html"),
    "emoji": send_text("é😀 " * 33_000, format="html"),
    "a page": send_text("<p>Le <b>chat</b> dort. " * 4000, format="html", source="auto"),
}


@pytest.mark.parametrize("kind", ["one-byte chunks", "many values", "mentions", "open tags"])
def test_abuse_keeps_nobody_waiting_for_long(server: Running, kind: str) -> None:
    """A lenient version of the next test, for busy machines."""
    seen = abused(server, 2.0, ABUSE[kind])
    assert len(seen.health) > 10 and len(seen.innocent) > 5
    assert seen.health[len(seen.health) // 2] < 0.25 and seen.innocent[len(seen.innocent) // 2] < 1


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("kind", ABUSE)
def test_while_four_clients_abuse_it_health_is_answered_within_250_ms(server: Running, kind: str) -> None:
    seen = abused(server, 10.0, ABUSE[kind])
    print(f"{kind}: health p99 {1000 * seen.health_p99():.0f} ms, innocent {seen.innocent[-1]:.2f} s")
    assert len(seen.health) > 100
    assert seen.health_p99() < 0.25
    assert seen.innocent[-1] < 3


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("kind", ["one-byte chunks", "mentions", "open tags"])
def test_also_with_a_model(kind: str) -> None:
    with running_server("--workers", "2") as server:
        seen = abused(server, 10.0, ABUSE[kind])
    print(f"{kind}: health p99 {1000 * seen.health_p99():.0f} ms, innocent {seen.innocent[-1]:.2f} s")
    assert seen.health_p99() < 0.25
    assert seen.innocent[-1] < 3


# File descriptors


@pytest.mark.parametrize("files", [64, 256, 1024, 20_000, 10**6])
def test_connections_and_those_that_wait_fit_the_open_files(files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.serving.http.connections._max_open_files", lambda: files)
    connections, at_once = connection_limits(workers=4)
    assert 8 <= connections <= 10_000 and at_once >= 8
    assert connections + at_once + 90 <= max(files, 106)


def test_when_connections_run_out_the_log_stays_short_and_others_are_answered() -> None:
    with fake_server(files=256) as server:
        address = urlsplit(server)
        idle = [socket.create_connection((address.hostname, address.port), 10) for _ in range(400)]
        assert asyncio.run(Client(server).send("GET", "/health")).status == 200, "an idle connection made room"
        assert psutil.Process(server.process.pid).num_fds() < 256
        for connection in idle:
            connection.close()
        start = time.monotonic()
        assert asyncio.run(Client(server).send("GET", "/health")).status == 200
        assert time.monotonic() - start < 2
        assert len(server.said) < 50, server.said[:50]


def test_when_all_connections_are_busy_another_is_refused_at_once() -> None:
    with fake_server(files=160, timeout=60) as server:
        address = urlsplit(server)
        busy = []
        for _ in range(150):
            connection = socket.create_connection((address.hostname, address.port), 10)
            with suppress(ConnectionError):
                connection.sendall(UNFINISHED)
            busy.append(connection)
        time.sleep(0.5)
        start = time.monotonic()
        found = asyncio.run(Client(server).send("GET", "/health"))
        assert (found.status, found.headers["retry-after"]) == (503, "1") and found.json()["error"]
        assert time.monotonic() - start < 2
        for connection in busy:
            connection.close()
        deadline = time.monotonic() + 10
        while asyncio.run(Client(server).send("GET", "/health")).status != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)


# Nested HTML


def test_html_nested_thousands_deep_is_translated(server: Running) -> None:
    html = "a <b>b" + "<b>" * 2000 + "</b>" * 2001
    found = asyncio.run(Client(server).translate(html, format="html"))
    assert (found.status, found.json()["translatedText"]) == (200, "A <b>B" + "<b>" * 2000 + "</b>" * 2001)


# The log, and signals


@contextmanager
def inherited(number: signal.Signals, handler: signal.Handlers) -> Iterator[None]:
    """Processes started here begin with this disposition of a signal, whatever ours is (nohup ignores SIGHUP)."""
    was = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, was)


def unread_server(**more: Any) -> tuple[subprocess.Popen[bytes], str]:
    """A server whose stderr is a pipe that nobody reads after the first lines."""
    script = str(ROOT / "tests" / "serving" / "fake_server.py")
    root = str(ROOT)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.path.join(root, "tests")])}
    settings = json.dumps({"port": 0, **more})
    process = subprocess.Popen([sys.executable, script, settings], stderr=subprocess.PIPE, env=env, bufsize=0)
    assert process.stderr
    while b"ready on" not in (line := process.stderr.readline()):
        assert line, "it ended"
    return process, line.decode().split("ready on ")[1].split()[0]


async def log_lines(url: str, count: int) -> None:
    client = Client(url)
    for _ in range(count):
        assert (await client.send("GET", "/health")).status == 200
    client.close()


def test_a_log_that_nobody_reads_holds_up_nothing() -> None:
    process, url = unread_server()
    try:
        asyncio.run(asyncio.wait_for(log_lines(url, 1500), 60))  # more than fits a pipe of 64 KiB
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0, "it stops as always"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "first, lines", [(signal.SIGTERM, 1500), (signal.SIGINT, 0), (signal.SIGHUP, 0)], ids=["TERM", "INT", "HUP"]
)
def test_a_second_signal_ends_it_whatever_it_waits_for(first: signal.Signals, lines: int) -> None:
    with inherited(signal.SIGHUP, signal.SIG_DFL):
        process, url = unread_server(grace=60, timeout=60)
    try:

        async def test() -> None:
            await asyncio.wait_for(log_lines(url, lines), 60)
            _, writer = await connect(url)
            writer.write(UNFINISHED)
            await writer.drain()
            await asyncio.sleep(0.3)
            process.send_signal(first)
            await asyncio.sleep(0.5)
            assert process.poll() is None, "it waits for the request"
            process.send_signal(signal.SIGTERM)
            assert process.wait(5) != 0
            writer.close()

        asyncio.run(test())
    finally:
        process.kill()
        process.wait()


def test_a_hangup_lets_requests_finish_also_when_it_comes_twice() -> None:
    body = json.dumps({"q": "a", "source": "fr", "target": "en"}).encode()
    with inherited(signal.SIGHUP, signal.SIG_DFL), fake_server(grace=60) as server:

        async def test() -> Reply:
            reader, writer = await connect(server)
            sent = request_bytes("POST", "/translate", body)
            writer.write(sent[:-5])
            await writer.drain()
            await asyncio.sleep(0.3)
            for _ in range(2):
                server.process.send_signal(signal.SIGHUP)
                await asyncio.sleep(0.3)
            writer.write(sent[-5:])
            found = await reply(reader, time.monotonic())
            writer.close()
            return found

        assert asyncio.run(test()).json() == {"translatedText": "A"}
        assert server.process.wait(15) == 0
    assert any("stopping; running requests: 1" in line for line in server.said)


def test_a_hangup_is_ignored_where_it_was_when_the_server_started() -> None:
    with inherited(signal.SIGHUP, signal.SIG_IGN), fake_server() as server:
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert asyncio.run(Client(server).send("GET", "/health")).status == 200
