"""Liveness and readiness: what each says while workers start, hang, respond, and while the server stops (R15)."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from typing import Any

import pytest
from serving.calling import call
from serving.fakes import FakePool, fake_app
from serving.load import connect, reply, request_bytes
from serving.running import fake_server

from regard.serving.http.health import HEALTH_PATHS


def statuses(app: Any) -> dict[str, tuple[int, str]]:
    replies = {path: call(app, "GET", path) for path in HEALTH_PATHS}
    return {path: (one.status, one.json()["status"]) for path, one in replies.items()}


@pytest.mark.parametrize(
    ("ready", "stalled", "draining", "status"),
    [
        (True, False, False, "ok"),
        (False, False, False, "starting"),
        (False, True, False, "stalled"),
        (True, False, True, "stopping"),
    ],
)
def test_not_ready_is_no_reason_to_be_restarted(ready: bool, stalled: bool, draining: bool, status: str) -> None:
    pool = FakePool()
    pool.ready, pool.stalled = ready, stalled
    app = fake_app(pool)
    app.state.draining = draining
    expected = (200 if status == "ok" else 503, status)
    assert statuses(app) == {"/health/live": (200, "ok"), "/health/ready": expected, "/health": expected}


def test_S12_health_checks_need_no_key_and_S13_no_limit_counts_them() -> None:
    app = fake_app(api_keys=("key",), req_limit=1)
    for _ in range(3):
        assert {status for status, _ in statuses(app).values()} == {200}
    assert call(app, "POST", "/health/ready").status == 405


def test_R15_with_drain_it_is_not_ready_first_and_nobody_is_refused_meanwhile() -> None:
    """A client that sends one request after the other, each on a new connection, as behind a balancer."""
    with fake_server(drain=4.0, grace=5.0) as server:

        async def ask(method: str, path: str, **fields: Any) -> tuple[int, str, dict[str, str]]:
            reader, writer = await connect(server)
            try:
                writer.write(request_bytes(method, path, json.dumps(fields).encode() if fields else b""))
                found = await reply(reader, time.monotonic())
                return found.status, found.body.decode(), found.headers
            finally:
                writer.close()

        async def test() -> None:
            assert (await ask("GET", "/health/ready"))[0] == 200
            server.process.send_signal(signal.SIGTERM)
            told, served = time.monotonic(), 0
            while (await ask("GET", "/health/ready"))[0] == 200:
                assert time.monotonic() - told < 1, "a signal is noticed at once"
            while served < 10:
                status, _, headers = await ask("POST", "/translate", q="a", source="fr", target="en")
                assert (status, headers["connection"]) == (200, "close")
                assert (await ask("GET", "/health/live"))[:2] == (200, '{"status":"ok"}')
                assert (await ask("GET", "/health/ready"))[:2] == (503, '{"status":"stopping"}')
                served += 1

        asyncio.run(test())
        assert server.process.wait(10) == 0
        assert any("not ready any more, serving for 4 s" in line for line in server.said)
