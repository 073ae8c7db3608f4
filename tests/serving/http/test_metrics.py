"""Prometheus metrics: correct, protected by a token, and without secrets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving.calling import call, guarded
from serving.fakes import FakePool
from serving.scripted_pool import COMMAND, running, said, within

from regard.serving.workers import worker_process
from regard.serving.workers.statistics import PoolStatistics


def samples(app: Any, **more: Any) -> dict[tuple[str, ...], float]:
    reply = call(app, "GET", "/metrics", **more)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(reply.body.decode())
    return {(s.name, *(s.labels[k] for k in sorted(s.labels))): s.value for family in families for s in family.samples}


def test_metrics_are_off_unless_asked_for() -> None:
    reply = call(guarded(), "GET", "/metrics")
    assert (reply.status, reply.json()) == (404, {"error": "Not found"})


def test_metrics_may_want_a_token() -> None:
    app = guarded(metrics=True, metrics_token="Token-1", api_keys=("key",))
    for wrong in (
        {},
        {"Authorization": "Bearer token-1"},
        {"Authorization": "Token-1"},
        {"Authorization": "Bearer key"},
    ):
        reply = call(app, "GET", "/metrics", headers=wrong)
        assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
        assert b"Token" not in reply.body
    assert call(app, "GET", "/metrics", headers={"Authorization": "Bearer Token-1"}).status == 200
    assert call(app, "POST", "/metrics", headers={"Authorization": "Bearer Token-1"}).status == 405


def test_metrics_count_what_happened() -> None:
    pool = FakePool()
    app = guarded(pool, metrics=True)
    app.get("/api/{task}")(lambda task: {})
    for _ in range(3):
        call(app, "POST", "/translate", q="a")
    call(app, "POST", "/fields", body=b"{", headers={"Content-Type": "application/json"})
    call(app, "GET", "/api/secret-task", query="api_key=secret-key")
    call(app, "GET", "/secret-path", client="9.8.7.6")
    call(app, "GET", "/health", host="secret-host")
    pool.waiting = 7
    seen = samples(app)
    assert seen["regard_requests_total", "/translate", "200"] == 3
    assert seen["regard_requests_total", "/fields", "400"] == 1
    assert seen["regard_requests_total", "/api/{task}", "200"] == 1
    assert seen["regard_requests_total", "none", "404"] == 1
    assert seen["regard_requests_total", "/health", "403"] == 1
    assert seen["regard_request_seconds_count", "/translate"] == 3
    assert seen["regard_waiting",] == 7
    assert (seen["regard_batches_total",], seen["regard_batched_sentences_total",]) == (3, 3)
    assert seen["process_resident_memory_bytes",] > 1e6
    page = call(app, "GET", "/metrics").body.decode()
    assert not [word for word in ("secret", "9.8.7.6", "127.0.0.1") if word in page]


def test_metrics_that_an_autoscaler_needs_come_from_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sentences wait for one worker that takes 0.3 s for each: it was busy for 0.6 s, and one of them waited."""
    seen: dict[tuple[str, ...], float] = {}
    during: dict[tuple[str, ...], float] = {}

    async def test() -> None:
        monkeypatch.setattr(worker_process, "COMMAND", COMMAND)
        async with running() as pool:
            app = guarded(pool, metrics=True)  # type: ignore[arg-type]
            first = asyncio.create_task(said(pool, "wait 0.3"))
            await asyncio.sleep(0.1)
            second = asyncio.create_task(said(pool, "wait 0.31"))
            await asyncio.sleep(0.05)
            during.update(await asyncio.to_thread(samples, app))
            await asyncio.gather(first, second)
            seen.update(await asyncio.to_thread(samples, app))

    within(20, test)
    assert (during["regard_workers",], during["regard_workers_alive",], during["regard_workers_busy",]) == (1, 1, 1)
    assert during["regard_waiting",] == 1 and 0.03 < during["regard_worker_busy_seconds_total",] < 0.3
    assert (seen["regard_workers_busy",], seen["regard_waiting",]) == (0, 0)
    assert 0.6 <= seen["regard_worker_busy_seconds_total",] < 2
    assert seen["regard_queue_wait_seconds_count",] == seen["regard_queue_wait_seconds_bucket", "+Inf"] == 2
    assert 0.1 < seen["regard_queue_wait_seconds_sum",] < 2
    assert seen["regard_queue_wait_seconds_bucket", "0.05"] <= 1
    assert seen["regard_input_characters_total",] == len("wait 0.3" + "wait 0.31")


def test_generated_tokens_are_counted() -> None:
    counted = PoolStatistics()
    for answer in ({"tokens": ["a", "b"]}, {"label": "good"}, None, ["a", "b"], {"tokens": [{"token": "c"}]}):
        counted.answered(answer)
    assert counted.output_tokens == 3
    for seconds in (0.0, 0.005, 0.3, 1000.0):
        counted.waited(seconds)
    cumulative = dict(counted.wait_buckets())
    assert (cumulative["0.005"], cumulative["0.25"], cumulative["0.5"], cumulative["+Inf"]) == (2, 2, 3, 4)


def test_two_servers_in_one_process_count_for_themselves() -> None:
    one, other = guarded(metrics=True), guarded(metrics=True)
    call(one, "POST", "/translate", q="a")
    assert ("regard_requests_total", "/translate", "200") in samples(one)
    assert ("regard_requests_total", "/translate", "200") not in samples(other)
