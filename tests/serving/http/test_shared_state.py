"""Servers that share keys and limits: two apps with one store, and what happens when the store fails."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from serving.calling import call, calling, guarded
from serving.fakes import FakePool, fake_app
from serving.redis_server import redis_server

from regard.serving.http import shared_state
from regard.serving.http.access import warning
from regard.serving.http.api_keys import PUBLIC_PATHS, is_public
from regard.serving.settings import Settings
from regard.serving.state import digest_of, open_state

UNCHECKED = {"error": "API keys cannot be checked at present"}


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def bearer(key: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {key}"}}


def test_S12_a_key_is_added_and_removed_while_servers_run(state: str) -> None:
    pool = FakePool()
    one, other, store = guarded(pool, state=state), guarded(pool, state=state), open_state(state)
    assert call(one, "POST", "/translate", q="a").status == 200, "no key was ever added"
    store.add_key("site", digest_of("k1"))
    for app in (one, other):
        assert call(app, "POST", "/translate", q="a").status == 400
        assert call(app, "POST", "/translate", q="a", api_key="k2").status == 403
        ways = (bearer("k1"), {"query": "api_key=k1"}, {"api_key": "k1"})
        assert [call(app, "POST", "/translate", q="a", **way).status for way in ways] == [200, 200, 200]
    assert len(set(pool.owners[1:])) == 1 and pool.owners[-1] == digest_of("k1")
    store.remove_key("site")
    assert [call(app, "POST", "/translate", q="a", **bearer("k1")).status for app in (one, other)] == [403, 403]


def test_S12_with_a_key_in_the_store_every_route_wants_one(state: str) -> None:
    open_state(state).add_key("site", digest_of("k"))
    app = fake_app(state=state, metrics=True)
    closed = {(method, route.path) for route in app.routes for method in route.methods if not is_public(route.path)}
    for method, path in closed:
        assert call(app, method, path.replace("{", "").replace("}", "")).status in (400, 401, 403), path
    for path in PUBLIC_PATHS:
        assert call(app, "GET", path).status == 200, path
    settings = call(app, "GET", "/frontend/settings").json()
    assert settings["keyRequired"] is settings["apiKeys"] is True
    assert call(fake_app(), "GET", "/frontend/settings").json()["keyRequired"] is False


def test_keys_of_a_file_and_of_the_store_work_together(state: str) -> None:
    open_state(state).add_key("site", digest_of("stored"))
    app = guarded(state=state, api_keys=("given",))
    found = [call(app, "POST", "/translate", q="a", **bearer(key)).status for key in ("stored", "given", "other")]
    assert found == [200, 200, 403]


def test_S12_a_store_that_lost_its_keys_does_not_open_a_running_server(state: str) -> None:
    open_state(state).add_key("site", digest_of("k"))
    app = guarded(state=state)
    with sqlite3.connect(state) as connection:
        connection.execute("DELETE FROM keys")
    assert call(app, "POST", "/translate", q="a").status == 400


def test_S13_two_servers_let_through_what_one_would(state: str) -> None:
    one, other = guarded(state=state, req_limit=3), guarded(state=state, req_limit=3)
    assert [call(app, "POST", "/fields").status for app in (one, other, one, other, one)] == [200, 200, 200, 429, 429]
    reply = call(other, "POST", "/fields")
    assert reply.json() == {"error": "Slowdown: 3 per 1 minute"} and 1 <= int(reply.headers["retry-after"]) <= 60
    assert call(other, "POST", "/fields", client="127.0.0.2").status == 200


def test_S14_a_store_with_keys_needs_no_warning(state: str) -> None:
    open_settings = Settings(host="0.0.0.0", state=state)
    assert warning(open_settings)
    open_state(state).add_key("site", digest_of("k"))
    assert not warning(open_settings)


def test_while_redis_is_away_keys_are_refused_and_each_server_counts_for_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_state, "RETRY_SECONDS", 0.2)
    with redis_server(tmp_path) as redis:
        open_state(redis.url).add_key("site", digest_of("k"))
        settings: dict[str, Any] = {"state": redis.url, "api_keys": ("given",), "req_limit": 2, "metrics": True}
        one, other = guarded(**settings), guarded(**settings)
        assert call(one, "POST", "/fields", **bearer("k")).status == 200
        redis.stop()
        began = time.monotonic()
        reply = call(one, "POST", "/fields", **bearer("k"))
        assert (reply.status, reply.json(), reply.headers["retry-after"]) == (503, UNCHECKED, "2")
        assert call(one, "POST", "/fields").status == 503, "whether it is right or not"
        found = [call(app, "POST", "/fields", **bearer("given")).status for app in (one, other) for _ in range(3)]
        assert found == [200, 200, 429] * 2
        assert call(one, "GET", "/health").status == call(one, "GET", "/languages", **bearer("k")).status == 200
        assert time.monotonic() - began < 20, "nothing hangs"
        counted = call(one, "GET", "/metrics", client="127.0.0.9").body.decode()
        assert float(counted.partition("\nregard_state_failures_total ")[2].split()[0]) >= 1
        said = capsys.readouterr().err
        assert said.count("state store: Redis cannot be used") == 2, "once for each server"
        with redis_server(tmp_path, port=redis.port):
            time.sleep(0.3)
            open_state(redis.url).add_key("site", digest_of("k"))
            assert call(one, "POST", "/fields", **bearer("k")).status == 200
    assert capsys.readouterr().err.count("state store: works again") == 1


def test_a_redis_that_hangs_is_given_up_after_its_time(tmp_path: Path) -> None:
    with redis_server(tmp_path) as redis:
        open_state(redis.url).add_key("site", digest_of("k"))
        app = guarded(state=redis.url, req_limit=5)
        redis.process.send_signal(signal.SIGSTOP)

        async def test() -> list[float]:
            async def late() -> float:
                """The moment at which the event loop gets to this, though it wanted to at 0.1 s."""
                began = time.monotonic()
                await asyncio.sleep(0.1)
                return time.monotonic() - began

            began = time.monotonic()
            first, passed = await asyncio.gather(calling(app, "POST", "/fields", **bearer("k")), late())
            waited = time.monotonic() - began
            assert (first.status, first.json()) == (503, UNCHECKED)
            began = time.monotonic()
            assert (await calling(app, "POST", "/fields", **bearer("k"))).status == 503
            return [passed, waited, time.monotonic() - began]

        passed, waited, next_waited = asyncio.run(test())
        assert passed < 0.8 < waited < 10 and next_waited < 0.8, "the second request does not wait again"


def test_a_store_that_hangs_blocks_neither_the_event_loop_nor_a_server_without_keys(state: str) -> None:
    """Another process holds the file: counting fails after a second, and the request is answered."""
    app = guarded(state=state, req_limit=5)
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - began)

    async def test() -> None:
        watching = asyncio.create_task(watch())
        began = time.monotonic()
        assert (await calling(app, "POST", "/fields")).status == 200
        assert time.monotonic() - began < 10
        replies = await asyncio.gather(*(calling(app, "POST", "/fields") for _ in range(5)))
        assert [reply.status for reply in replies] == [200] * 4 + [429], "counted here, without waiting again"
        watching.cancel()

    holder = sqlite3.connect(state, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    asyncio.run(test())
    holder.execute("ROLLBACK")
    assert longest < 0.8, "the store's second was not the event loop's"
