"""Numbers for Prometheus. Labels are templates of routes and statuses: no key, address, text or path of a request."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from regard.serving.http.keys import key_in_header
from regard.serving.http.problem import Problem
from regard.serving.log import Answered
from regard.serving.settings import Settings

if TYPE_CHECKING:
    from regard.serving.workers.worker_pool import Engine

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Of one server: several in one process do not share their numbers."""

    def __init__(self, engine: Engine):
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.registry.register(Models(engine))
        labels = ("route", "status")
        self.requests = Counter("regard_requests", "Requests that are over", labels, registry=self.registry)
        self.seconds = Histogram(
            "regard_request_seconds", "Seconds until over", ("route",), buckets=SECONDS, registry=self.registry
        )

    def saw(self, answered: Answered) -> None:
        route = answered.route or "none"
        self.requests.labels(route, str(answered.status)).inc()
        self.seconds.labels(route).observe(answered.seconds)


class Models(Collector):
    """What the engine counts, asked when somebody wants to know."""

    def __init__(self, engine: Engine):
        self.engine = engine

    def collect(self) -> Iterable[Metric]:
        engine = self.engine
        yield GaugeMetricFamily("regard_ready", "Whether models can be asked", float(engine.ready))
        yield GaugeMetricFamily("regard_waiting", "Sentences and other jobs in the queue", engine.waiting)
        yield CounterMetricFamily("regard_batches", "Batches of sentences handed to models", engine.batches)
        yield CounterMetricFamily("regard_batched_sentences", "Sentences in these batches", engine.batched)


def router(settings: Settings, metrics: Metrics | None) -> APIRouter:
    routes = APIRouter()

    @routes.get("/metrics", include_in_schema=False)
    async def show(request: Request) -> Response:
        if metrics is None:
            raise Problem(404, "Not found")
        given = key_in_header(request.headers) or ""
        wanted = settings.metrics_token
        if wanted and not hmac.compare_digest(given.encode(), wanted.encode()):
            raise Problem(401, "The metrics want a token", {"WWW-Authenticate": "Bearer"})
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return routes
