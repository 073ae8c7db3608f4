"""The rate limit, and the client address it counts."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from serving.calling import call, guarded
from starlette.datastructures import Headers

from regard.errors import UserError
from regard.serving.http.client_address import ClientAddresses
from regard.serving.http.http_error import HttpError
from regard.serving.http.rate_limit import RateLimiter


def statuses(app: Any, count: int, path: str = "/fields", **more: Any) -> list[int]:
    return [call(app, "POST", path, **more).status for _ in range(count)]


def test_S13_so_many_a_minute_for_each_address() -> None:
    app = guarded(req_limit=2)
    assert statuses(app, 3) == [200, 200, 429]
    assert statuses(app, 3, client="127.0.0.2") == [200, 200, 429]
    reply = call(app, "POST", "/fields")
    assert reply.json() == {"error": "Slowdown: 2 per 1 minute"}
    assert 1 <= int(reply.headers["retry-after"]) <= 60
    assert call(app, "POST", "/v2/fields").json() == {"message": "Slowdown: 2 per 1 minute"}


def test_S13_failed_requests_count_whatever_they_failed_of() -> None:
    json = {"Content-Type": "application/json"}
    assert statuses(guarded(req_limit=2), 3, path="/nothing") == [404, 404, 429]
    assert statuses(guarded(req_limit=2, text_limit=5), 3, body=b"x" * 9) == [413, 413, 429]
    assert statuses(guarded(req_limit=2), 3, body=b"{", headers=json) == [400, 400, 429]
    assert statuses(guarded(req_limit=2, api_keys=("k",)), 3, body=b"{", headers=json) == [400, 400, 429]
    assert statuses(guarded(req_limit=2, api_keys=("k",)), 3, api_key="wrong") == [403, 403, 429], "guessing is slow"


def test_S13_each_key_has_its_own_count() -> None:
    app = guarded(req_limit=2, api_keys=("k1", "k2"))
    assert statuses(app, 3, api_key="k1") == [200, 200, 429]
    assert statuses(app, 3, api_key="k2") == [200, 200, 429], "from the same address"
    assert statuses(app, 1, api_key="k1", client="127.0.0.9") == [429], "from any address"
    assert statuses(app, 3, api_key="wrong") == [403, 403, 429]


def test_S13_health_and_languages_are_free() -> None:
    app = guarded(req_limit=1)
    assert [call(app, "GET", path).status for path in ("/health", "/languages") * 5] == [200] * 10
    assert statuses(app, 2) == [200, 429]
    assert call(app, "GET", "/health").status == 200


def test_S13_without_a_limit_nothing_is_counted() -> None:
    assert set(statuses(guarded(), 50)) == {200}


def test_S13_after_a_minute_one_may_ask_again() -> None:
    now = 100.0
    limiter = RateLimiter(2, clock=lambda: now)

    def refused(caller: str = "a") -> int:
        try:
            limiter.count(caller)
        except HttpError as problem:
            return int(problem.headers["Retry-After"])
        return 0

    assert [refused(), refused(), refused()] == [0, 0, 60]
    now = 159.5
    assert [refused(), refused("b")] == [1, 0]
    now = 160.0
    assert [refused(), refused(), refused(), refused("b"), refused("b")] == [0, 0, 60, 0, 60]
    now = 219.5
    assert refused("b") == 0, "its own minute began later"
    now = 500.0
    refused("c")
    assert len(limiter) == 1, "the others are forgotten"


def test_S13_a_million_addresses_take_bounded_memory_and_little_time() -> None:
    """In a separate process, without runtime type checks."""
    script = """
import resource, time
from regard.serving.http.rate_limit import RateLimiter
limiter, before, began = RateLimiter(2), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
for number in range(1_000_000):
    limiter.count(str(number))
took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(limiter), limiter.max_clients, (after - before) // 1024, took)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    remembered, most, mebibytes, seconds = map(float, done.stdout.split())
    assert remembered == most <= 100_000
    assert mebibytes < 60  # measured: 23
    assert seconds < 30  # measured: 2.5


def test_S13_those_who_asked_last_are_remembered() -> None:
    limiter = RateLimiter(2, max_clients=100)
    for number in range(1000):
        limiter.count(str(number))
    assert len(limiter) == 100
    limiter.count("999")
    with pytest.raises(HttpError):
        limiter.count("999")


def test_S13_addresses_that_come_and_go_leave_nothing_behind() -> None:
    now = 0.0
    limiter = RateLimiter(2, clock=lambda: now)
    for number in range(5000):
        now += 0.1
        limiter.count(str(number))
    assert len(limiter) <= 601


def caller(client: str, forwarded: str | list[str] = (), trusted: tuple[str, ...] = ()) -> str:  # type: ignore[assignment]
    lines = [forwarded] if isinstance(forwarded, str) else forwarded
    raw = [(b"x-forwarded-for", line.encode()) for line in lines]
    return ClientAddresses(trusted).of((client, 1), Headers(raw=raw))


def test_S13_an_ipv6_customer_is_one_caller() -> None:
    assert caller("2001:db8:1:2::1") == caller("2001:db8:1:2:ffff::9") != caller("2001:db8:1:3::1")
    assert caller("::ffff:10.0.0.1") == caller("10.0.0.1") != caller("10.0.0.2")
    assert ClientAddresses(()).of(None, Headers()) == ""


def test_S13_x_forwarded_for_is_believed_only_of_trusted_proxies() -> None:
    proxies = ("10.0.0.1", "10.1.0.0/16", "fd00::/8")
    assert caller("5.5.5.5", "1.1.1.1") == "5.5.5.5"
    assert caller("5.5.5.5", "1.1.1.1", proxies) == "5.5.5.5", "not a proxy of ours"
    assert caller("10.0.0.1", "1.1.1.1", proxies) == "1.1.1.1"
    assert caller("10.0.0.1", "made-up, 9.9.9.9, 1.1.1.1", proxies) == "1.1.1.1", "only the last stranger is known"
    assert caller("10.0.0.1", "9.9.9.9, 1.1.1.1, 10.1.2.3 ,fd00::5", proxies) == "1.1.1.1"
    assert caller("10.0.0.1", ["9.9.9.9, 1.1.1.1", "10.1.2.3"], proxies) == "1.1.1.1", "in several lines"
    assert caller("::ffff:10.0.0.1", "1.1.1.1", proxies) == "1.1.1.1"
    assert caller("10.0.0.1", "9.9.9.9, nonsense", proxies) == "10.0.0.1"
    assert caller("10.0.0.1", "", proxies) == "10.0.0.1"
    assert caller("10.0.0.1", "10.0.0.1", proxies) == "10.0.0.1"


def test_S13_made_up_addresses_do_not_help() -> None:
    app = guarded(req_limit=2)
    assert [call(app, "POST", "/fields", headers={"X-Forwarded-For": f"1.1.1.{n}"}).status for n in range(3)] == [
        200,
        200,
        429,
    ]
    behind = guarded(req_limit=2, trusted_proxies=("127.0.0.1",))
    assert [call(behind, "POST", "/fields", headers={"X-Forwarded-For": f"1.1.1.{n}"}).status for n in range(3)] == [
        200
    ] * 3
    assert [
        call(behind, "POST", "/fields", headers={"X-Forwarded-For": f"1.1.1.{n}, 2.2.2.2"}).status for n in range(3)
    ] == [200, 200, 429]


def test_a_proxy_that_is_no_address_is_said_at_once() -> None:
    with pytest.raises(UserError, match="proxy.example"):
        guarded(trusted_proxies=("proxy.example",))
