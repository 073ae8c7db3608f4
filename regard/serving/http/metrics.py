"""Prometheus metrics. Labels are route templates and statuses: no API key, address, text or path of a request."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from regard.serving.http.api_keys import key_in_header
from regard.serving.http.http_error import HttpError
from regard.serving.http.request_log import FinishedRequest
from regard.serving.http.shared_state import SharedState
from regard.serving.settings import Settings

if TYPE_CHECKING:
    from regard.serving.workers.worker_pool import WorkerPool

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """The metrics of one server; several servers in one process have separate registries."""

    def __init__(self, pool: WorkerPool, shared: SharedState | None = None):
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.registry.register(PoolCollector(pool))
        if shared:
            self.registry.register(StateCollector(shared))
        labels = ("route", "status")
        self.requests = Counter("regard_requests", "Finished requests", labels, registry=self.registry)
        self.seconds = Histogram(
            "regard_request_seconds",
            "Request duration",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )

    def observe(self, request: FinishedRequest) -> None:
        route = request.route or "none"
        self.requests.labels(route, str(request.status)).inc()
        self.seconds.labels(route).observe(request.seconds)


class PoolCollector(Collector):
    """Reads the pool's counters when the metrics are scraped."""

    def __init__(self, pool: WorkerPool):
        self.pool = pool

    def collect(self) -> Iterable[Metric]:
        pool = self.pool
        counted, workers = pool.statistics, pool.workers
        waits = counted.wait_buckets()
        yield GaugeMetricFamily("regard_ready", "Whether a worker responds", float(pool.ready))
        yield GaugeMetricFamily("regard_waiting", "Sentences and other jobs in the queue", pool.waiting)
        yield HistogramMetricFamily(
            "regard_queue_wait_seconds", "Time that a job waits for a worker", waits, counted.wait_seconds
        )
        yield GaugeMetricFamily("regard_workers", "Worker processes", len(workers))
        yield GaugeMetricFamily("regard_workers_alive", "Those that are running", sum(one.alive for one in workers))
        yield GaugeMetricFamily("regard_workers_busy", "Those that compute", sum(bool(one.jobs) for one in workers))
        yield CounterMetricFamily("regard_worker_busy_seconds", "Time that workers computed, summed", pool.busy_seconds)
        yield CounterMetricFamily("regard_batches", "Batches of sentences sent to workers", counted.batches)
        yield CounterMetricFamily("regard_batched_sentences", "Sentences in these batches", counted.batched)
        yield CounterMetricFamily("regard_input_characters", "Characters of these", counted.input_characters)
        yield CounterMetricFamily("regard_output_tokens", "Tokens of the answers", counted.output_tokens)


class StateCollector(Collector):
    def __init__(self, shared: SharedState):
        self.shared = shared

    def collect(self) -> Iterable[Metric]:
        yield CounterMetricFamily("regard_state_failures", "Failures of the state store", self.shared.failures)


def router(settings: Settings, metrics: Metrics | None) -> APIRouter:
    routes = APIRouter()

    @routes.get("/metrics", include_in_schema=False)
    async def show(request: Request) -> Response:
        if metrics is None:
            raise HttpError(404, "Not found")
        given = key_in_header(request.headers) or ""
        expected = settings.metrics_token
        if expected and not hmac.compare_digest(given.encode(), expected.encode()):
            raise HttpError(401, "The metrics require a token", {"WWW-Authenticate": "Bearer"})
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return routes
