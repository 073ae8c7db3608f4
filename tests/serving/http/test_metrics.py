"""Prometheus metrics: correct, protected by a token, and without secrets."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from serving.calling import call, guarded
from serving.fakes import FakePool


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


def test_two_servers_in_one_process_count_for_themselves() -> None:
    one, other = guarded(metrics=True), guarded(metrics=True)
    call(one, "POST", "/translate", q="a")
    assert ("regard_requests_total", "/translate", "200") in samples(one)
    assert ("regard_requests_total", "/translate", "200") not in samples(other)
