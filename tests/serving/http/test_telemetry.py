"""Traces: what a collector on this machine receives from a server with scripted workers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from serving.calling import call, calling, guarded
from serving.fakes import FakePool
from serving.load import at_once
from serving.redis_server import free_port
from serving.running import fake_server
from serving.scripted_pool import COMMAND, running, within

from regard.cli import serve
from regard.cli.serve import _traces
from regard.errors import UserError
from regard.serving.http import telemetry
from regard.serving.workers import worker_process

pytest.importorskip("opentelemetry.sdk")
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET, SERVER_KIND = "Je suis secret.", 2


class Collector:
    """What was sent: bodies as they came, and spans by name."""

    def __init__(self) -> None:
        self.url, self.bodies, self.paths = "", list[bytes](), list[str]()

    @property
    def spans(self) -> list[Any]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [span for one in requests for of in one.resource_spans for part in of.scope_spans for span in part.spans]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


@contextmanager
def collector() -> Iterator[Collector]:
    seen = Collector()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            seen.bodies.append(body)
            seen.paths.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        seen.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
        Thread(target=server.serve_forever, daemon=True).start()
        yield seen
        server.shutdown()


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def test_a_request_is_a_span_with_its_wait_and_its_batch_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only worker is busy for 0.3 s with another request, so this one waits for it."""
    monkeypatch.setattr(worker_process, "COMMAND", COMMAND)
    with collector() as seen:

        async def test() -> None:
            async with running("fr-en") as pool:
                app = guarded(pool, telemetry=seen.url, api_keys=("k3y",))  # type: ignore[arg-type]
                first = asyncio.create_task(calling(app, "POST", "/translate", q="wait 0.3", api_key="k3y"))
                await asyncio.sleep(0.1)
                headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "authorization": "Bearer k3y"}
                reply = await calling(app, "POST", "/translate", q=SECRET, headers=headers)
                assert reply.json() == {"translatedText": SECRET.upper()}
                await first
                for path in ("/health", "/metrics"):
                    await calling(app, "GET", path)
                assert (await calling(app, "GET", "/nowhere/secret", query="api_key=k3y")).status == 404
                app.state.telemetry.close()

                (request,) = [span for span in seen.named("POST /translate") if span.trace_id.hex() == TRACE]
                assert request.parent_span_id.hex() == PARENT and request.kind == SERVER_KIND
                assert attributes(request) == {
                    "http.request.method": "POST",
                    "http.route": "/translate",
                    "http.response.status_code": 200,
                    "regard.request_id": reply.headers["x-request-id"],
                }
                children = [span for span in seen.spans if span.parent_span_id == request.span_id]
                queue, batch = sorted(children, key=lambda span: span.start_time_unix_nano)
                assert (queue.name, batch.name) == ("queue", "batch")
                about = {"regard.model": "fr-en", "regard.action": "translate", "regard.jobs": 1}
                assert attributes(queue) == about
                assert attributes(batch) == {**about, "regard.batch_size": 1, "regard.worker": pool.workers[0].pid}
                assert abs(queue.end_time_unix_nano - batch.start_time_unix_nano) < 1e6
                assert 0.05e9 < queue.end_time_unix_nano - queue.start_time_unix_nano < 2e9
                assert request.start_time_unix_nano <= queue.start_time_unix_nano + 1e6
                assert batch.end_time_unix_nano <= request.end_time_unix_nano + 1e6
                assert abs(request.end_time_unix_nano - time.time_ns()) < 60e9

        within(30, test)
        assert len(seen.named("POST /translate")) == len(seen.named("batch")) == 2
        assert [span.name for span in seen.spans if span.name.startswith("GET")] == ["GET"], (
            "neither health nor metrics"
        )
        sent = b"".join(seen.bodies)
        assert set(seen.paths) == {"/v1/traces"} and b"regard" in sent
        assert not [word for word in (b"secret", b"SECRET", b"k3y", b"127.0.0.1") if word in sent]


def test_a_failure_of_the_server_is_an_error_and_a_large_request_has_a_bounded_number_of_spans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telemetry, "MAX_BATCHES", 2)
    with collector() as seen:
        app = guarded(FakePool(error=RuntimeError("broken")), telemetry=seen.url)
        assert call(app, "POST", "/translate", q="a").status == 500
        batches = telemetry._Batches(app.state.telemetry.tracer, app.state.telemetry.tracer.start_span("x"))
        for number in range(5):
            batches.add(telemetry.BatchTimes("translate", "m", number, 9, 1, 1.0, 2.0, 3.0))
        app.state.telemetry.close()
    (span,) = seen.named("POST /translate")
    assert span.status.code == 2 and attributes(span)["http.response.status_code"] == 500
    assert [attributes(one)["regard.jobs"] for one in seen.named("batch")] == [0, 1]


def test_what_is_not_sent_yet_is_sent_when_the_server_stops() -> None:
    with collector() as seen, fake_server(telemetry=seen.url, drain=0.1) as server:
        (reply,) = at_once(server, 1, lambda client, number: client.translate("Bonjour."))
        assert reply.status == 200 and not seen.bodies
        server.process.terminate()
        assert server.process.wait(30) == 0
        assert [span.name for span in seen.spans] == ["POST /translate"]


def test_a_collector_that_cannot_be_reached_delays_neither_requests_nor_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telemetry, "FLUSH_SECONDS", 0.3)
    app = guarded(telemetry=f"http://127.0.0.1:{free_port()}/v1/traces")
    began = time.monotonic()
    assert call(app, "POST", "/translate", q="a").status == 200
    assert time.monotonic() - began < 2
    app.state.telemetry.close()
    assert time.monotonic() - began < 5


def test_nothing_is_traced_unless_it_is_asked_for() -> None:
    assert guarded().state.telemetry is None
    code = "import regard.serving.http.server, sys; print([name for name in sys.modules if name in ('opentelemetry.sdk', 'opentelemetry.exporter', 'torch', 'redis')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_the_standard_variables_turn_traces_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (
        "OTEL_SDK_DISABLED",
        "OTEL_TRACES_EXPORTER",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ):
        monkeypatch.delenv(name, raising=False)
    assert _traces("") == ""
    for given in ("http://here:4318", "http://here:4318/"):
        assert _traces(given) == "http://here:4318/v1/traces"
    assert _traces("https://here/their/traces") == "https://here/their/traces"
    for wrong in ("here:4318", "http://", "grpc://here", "http://he re"):
        with pytest.raises(UserError, match="--telemetry"):
            _traces(wrong)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://there:4318/")
    assert _traces("") == "http://there:4318/v1/traces" and _traces("http://here") == "http://here/v1/traces"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://there/exactly")
    assert _traces("") == "http://there/exactly"
    with monkeypatch.context() as without:
        without.setattr(serve, "find_spec", lambda name: None)
        assert _traces("") == "" and "regard[telemetry]" in capsys.readouterr().err
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    assert _traces("") == ""
    monkeypatch.delenv("OTEL_TRACES_EXPORTER")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert _traces("") == ""
