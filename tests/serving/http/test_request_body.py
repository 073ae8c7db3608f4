"""Request bodies: limits of size, encoding and time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from serving.calling import FORM, Message, call, calling, guarded

from regard.serving.http.request_body import BodyLimits
from regard.serving.settings import Settings

JSON = "application/json"


def small(**more: Any) -> Any:
    return guarded(text_limit=100, body_limit=1000, **more)


@pytest.mark.parametrize("kind, limit", [(JSON, 100), ("application/problem+json; charset=utf-8", 100), (FORM, 100), ("multipart/form-data; boundary=x", 100), ("", 100), ("image/png", 1000), ("text/plain", 1000)])  # fmt: skip
@pytest.mark.parametrize("chunked", [False, True])
def test_S6_a_body_may_have_so_many_bytes_and_not_one_more(kind: str, limit: int, chunked: bool) -> None:
    for size, status in ((limit, 200), (limit + 1, 413)):
        body = b"x" * size
        sent: dict[str, Any] = {"parts": [body[:50], body[50:], b""]} if chunked else {"body": body}
        reply = call(small(), "POST", "/raw", headers={"Content-Type": kind} if kind else {}, **sent)
        assert reply.status == status
        assert reply.json() == {"bytes": size, "first": "78" * 8} if status == 200 else "error" in reply.json()


@pytest.mark.parametrize("headers", [{"Content-Length": str(10**15)}, {"Transfer-Encoding": "chunked"}])
def test_S6_an_oversized_body_is_refused_before_it_is_read(headers: dict[str, str]) -> None:
    """The response is sent at once; the rest of the body is discarded so that the sender can read the response."""
    app, taken, answered_after = small(), 0, []

    async def endless() -> Message:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": b"x" * 60, "more_body": True}

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        async def seen(message: Message) -> None:
            answered_after.append(taken)
            await send(message)

        await app(scope, receive, seen)

    began = time.monotonic()
    reply = call(watched, "POST", "/raw", receive=endless, headers={"Content-Type": JSON, **headers})
    assert (reply.status, reply.headers["connection"], reply.whole) == (413, "close", True)
    assert answered_after[1] == (0 if "Content-Length" in headers else 2), "of 60 bytes each, where 100 are allowed"
    assert time.monotonic() - began < 5, "but not for ever"


@pytest.mark.parametrize("length", ["-1", "+1", "1.0", "0x10", "", "abc", "1 1", "9" * 30, "1e3"])
def test_S6_a_content_length_that_is_no_length_is_refused(length: str) -> None:
    assert call(small(), "POST", "/raw", body=b"x", headers={"Content-Length": length}).status == 400


@pytest.mark.parametrize("length", ["1", "3"])
def test_S6_a_body_of_another_length_than_declared_is_refused(length: str) -> None:
    assert call(small(), "POST", "/raw", body=b"xx", headers={"Content-Length": length}).status == 400


def test_S6_an_endless_address_is_refused() -> None:
    assert call(small(), "GET", "/fields", query="q=" + "x" * 70_000).status == 414
    assert call(small(), "GET", "/fields", query="q=" + "x" * 60_000).status == 200


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "GZIP", "zstd", "identity, gzip", "x"])
@pytest.mark.parametrize("path", ["/raw", "/fields", "/translate"])
def test_S7_compressed_bodies_are_refused(coding: str, path: str) -> None:
    import gzip

    bomb = gzip.compress(b" " * 10_000_000)
    reply = call(guarded(), "POST", path, body=bomb, headers={"Content-Encoding": coding, "Content-Type": JSON})
    assert (reply.status, reply.headers["accept-encoding"]) == (415, "identity")


def test_S7_a_body_that_is_not_compressed_may_say_so() -> None:
    assert call(small(), "POST", "/raw", body=b"x", headers={"Content-Encoding": "identity"}).status == 200


def test_R17_a_body_that_trickles_in_is_given_up() -> None:
    limits = BodyLimits(Settings(), seconds=0.2)

    async def trickle() -> Message:
        await asyncio.sleep(0.03)
        return {"type": "http.request", "body": b"x", "more_body": True}

    began = time.monotonic()
    reply = call(guarded(body_limits=limits), "POST", "/raw", receive=trickle, headers={"Transfer-Encoding": "chunked"})
    assert (reply.status, reply.headers["connection"]) == (408, "close")
    assert 0.15 < time.monotonic() - began < 5
    assert limits.held == 0


def test_R17_slow_bodies_keep_nobody_else_waiting() -> None:
    app = guarded(body_limits=BodyLimits(Settings(), seconds=1))

    async def silent() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    async def all_of_them() -> float:
        slow = [
            asyncio.create_task(calling(app, "POST", "/raw", receive=silent, headers={"Content-Length": "9"}))
            for _ in range(100)
        ]
        await asyncio.sleep(0)
        began = time.monotonic()
        assert (await calling(app, "GET", "/health")).status == 200
        took = time.monotonic() - began
        assert {reply.status for reply in await asyncio.gather(*slow)} == {408}
        return took

    assert asyncio.run(all_of_them()) < 0.5


def test_S6_what_all_bodies_hold_together_is_bounded_and_given_back() -> None:
    limits = BodyLimits(Settings(), total=2500)
    app = guarded(body_limits=limits)
    binary = {"Content-Type": "image/png"}

    async def at_once() -> list[int]:
        second_half = asyncio.Event()

        def slowly() -> Any:
            parts = [b"x" * 1000, b""]

            async def receive() -> Message:
                if len(parts) == 1:
                    await second_half.wait()
                return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

            return receive

        tasks = [asyncio.create_task(calling(app, "POST", "/raw", receive=slowly(), headers=binary)) for _ in range(4)]
        await asyncio.sleep(0.1)
        assert limits.held == 2000
        second_half.set()
        return sorted(reply.status for reply in await asyncio.gather(*tasks))

    assert asyncio.run(at_once()) == [200, 200, 503, 503]
    assert limits.held == 0
    assert call(app, "POST", "/raw", body=b"x" * 2400, headers=binary).status == 200


def test_a_client_that_goes_away_in_the_middle_of_its_body_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    messages: list[Message] = [{"type": "http.request", "body": b"x", "more_body": True}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        return messages.pop(0)

    reply = call(guarded(log_requests=True), "POST", "/raw", receive=receive, headers={"Content-Length": "9"})
    assert reply.status == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert " POST /raw 499 " in line
