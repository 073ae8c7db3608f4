"""Requests of disconnected clients are cancelled."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from serving.calling import Message, Reply, calling, guarded
from serving.fakes import FakePool

BODY: Message = {"type": "http.request", "body": b'{"q": "abc"}', "more_body": False}
JSON = {"Content-Type": "application/json"}


def leaving(after: float) -> Any:
    """A client that sends its request and disconnects after `seconds`."""
    messages = [BODY]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.sleep(after)
        return {"type": "http.disconnect"}

    return receive


def timed(coroutine: Any) -> tuple[Reply, float]:
    began = time.monotonic()
    return asyncio.run(coroutine), time.monotonic() - began


def test_R14_a_request_over_its_time_is_ended_and_its_computing_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    pool = FakePool(seconds=60)
    reply, took = timed(calling(guarded(pool, timeout=0.2), "POST", "/translate", q="abc"))
    assert reply.status == 504
    assert reply.headers["x-request-id"] in reply.json()["error"]
    assert 0.15 < took < 5
    assert (pool.cancelled, pool.waiting) == (1, 0)
    assert not capsys.readouterr().err, "that is no mistake of ours"


def test_R14_others_are_not_touched_by_it() -> None:
    pool = FakePool(seconds=0.3)
    app = guarded(pool, timeout=0.6)

    async def both() -> tuple[Reply, Reply]:
        leaves = calling(app, "POST", "/translate", receive=leaving(0.1), headers=JSON)
        stays = calling(app, "POST", "/translate", q="abc")
        return await asyncio.gather(leaves, stays)

    left, stayed = asyncio.run(both())
    assert (left.status, stayed.status, stayed.json()) == (0, 200, {"translatedText": "ABC"})
    assert pool.cancelled == 1


def test_R14_when_the_client_goes_away_the_computing_stops(capsys: pytest.CaptureFixture[str]) -> None:
    pool = FakePool(seconds=60)
    app = guarded(pool, log_requests=True)
    reply, took = timed(calling(app, "POST", "/translate", receive=leaving(0.1), headers=JSON))
    assert reply.status == 0, "nobody is there to read an answer"
    assert took < 5
    assert (pool.cancelled, pool.waiting) == (1, 0)
    (line,) = capsys.readouterr().err.splitlines()
    assert " POST /translate 499 " in line


@pytest.mark.parametrize("how", ["hangs up", "out of time"])
def test_R14_an_answer_in_parts_stops_too(how: str) -> None:
    pool = FakePool(seconds=0.4)
    app = guarded(pool, timeout=60 if how == "hangs up" else 0.6)
    receive = leaving(0.6 if how == "hangs up" else 60)
    reply, took = timed(calling(app, "POST", "/stream", receive=receive, headers=JSON))
    assert (reply.status, reply.body.count(b"\n"), reply.whole) == (200, 1, False), "one part came, the end did not"
    assert took < 5
    assert (pool.cancelled, pool.waiting) == (1, 0)


def test_R14_whoever_stays_gets_all_of_it() -> None:
    reply, _ = timed(calling(guarded(FakePool()), "POST", "/stream", receive=leaving(60), headers=JSON))
    assert (reply.status, reply.body.count(b"\n"), reply.whole) == (200, 3, True)


def test_R14_when_the_server_gives_up_the_computing_stops() -> None:
    pool = FakePool(seconds=60)

    async def stopped() -> None:
        task = asyncio.create_task(calling(guarded(pool), "POST", "/translate", q="abc"))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(stopped())
    assert (pool.cancelled, pool.waiting) == (1, 0)


def test_R14_nothing_is_left_running() -> None:
    async def several() -> int:
        app = guarded(FakePool(seconds=0.05), timeout=0.2)
        await asyncio.gather(
            calling(app, "GET", "/health"),
            calling(app, "POST", "/translate", q="a"),
            calling(app, "POST", "/translate", receive=leaving(0.01), headers=JSON),
            calling(app, "POST", "/stream", receive=leaving(0.07), headers=JSON),
        )
        await asyncio.sleep(0.01)
        return len(asyncio.all_tasks()) - 1

    assert asyncio.run(several()) == 0
