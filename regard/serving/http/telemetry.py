"""OpenTelemetry traces (`--telemetry`, `regard[telemetry]`): a span per request, with children for waiting and batches.

Spans hold routes, models, counts and times: no text, API key, address or path of a request.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard import __version__
from regard.errors import UserError
from regard.serving.http.health import HEALTH_PATHS
from regard.serving.http.request_log import CLIENT_CLOSED_REQUEST
from regard.serving.http.routing import route_of
from regard.serving.workers import batch_times
from regard.serving.workers.batch_times import BatchTimes

UNTRACED_PATHS = HEALTH_PATHS | {"/metrics"}
"""Asked every few seconds by machines."""
MAX_BATCHES = 50
"""Batches of one request that get spans of their own."""
FLUSH_SECONDS = 2.0
"""Time for sending the last spans when the server stops."""


class Telemetry:
    """Sends spans to a collector (OTLP over HTTP), in a thread; while it cannot be reached, spans are dropped."""

    def __init__(self, url: str):
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise UserError("traces need more packages; type: pip install 'regard[telemetry]'") from None
        named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        about = {"service.version": __version__, **({} if named else {"service.name": "regard"})}
        self.provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
        self.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
        self.tracer = self.provider.get_tracer("regard", __version__)

    def close(self) -> None:
        """Sends what is left, but does not wait long for a collector that cannot be reached."""
        closing = threading.Thread(target=self.provider.shutdown, daemon=True)
        closing.start()
        closing.join(FLUSH_SECONDS)


class TraceMiddleware:
    """The outermost middleware. A request that comes with `traceparent` continues that trace."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry, prefix: str = ""):
        self.app, self.tracer, self.prefix = app, telemetry.tracer, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].removeprefix(self.prefix) in UNTRACED_PATHS:
            await self.app(scope, receive, send)
            return
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        parent = TraceContextTextMapPropagator().extract(dict(Headers(scope=scope)))
        span = self.tracer.start_span(scope["method"][:16], context=parent, kind=SpanKind.SERVER)
        status = CLIENT_CLOSED_REQUEST

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        token = batch_times.listener.set(_Batches(self.tracer, span).add)
        try:
            await self.app(scope, receive, send_and_note)
        finally:
            batch_times.listener.reset(token)
            route = route_of(scope)
            span.update_name(f"{scope['method'][:16]} {route}".rstrip())
            span.set_attribute("http.request.method", scope["method"][:16])
            span.set_attribute("http.route", route)
            span.set_attribute("http.response.status_code", status)
            span.set_attribute("regard.request_id", scope.get("state", {}).get("id", ""))
            if status >= 500:
                span.set_status(StatusCode.ERROR)
            span.end()


class _Batches:
    """Makes two spans of each batch of a request: `queue` until it starts, then `batch`."""

    def __init__(self, tracer: Any, span: Any):
        from opentelemetry.trace import set_span_in_context

        self.tracer, self.context = tracer, set_span_in_context(span)
        self.left = MAX_BATCHES if span.is_recording() else 0

    def add(self, times: BatchTimes) -> None:
        if not self.left:
            return
        self.left -= 1
        about = {"regard.model": times.model, "regard.action": times.action, "regard.jobs": times.jobs}
        more = {**about, "regard.batch_size": times.batch_size, "regard.worker": times.worker}
        self._span("queue", times.queued, times.started, about)
        self._span("batch", times.started, times.ended, more)

    def _span(self, name: str, start: float, end: float, attributes: dict[str, Any]) -> None:
        now, wall = time.monotonic(), time.time_ns()
        began, ended = (wall - int((now - moment) * 1e9) for moment in (start, end))
        self.tracer.start_span(name, context=self.context, start_time=began, attributes=attributes).end(ended)
