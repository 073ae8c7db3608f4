"""The access log: one line per request, which cannot be forged."""

from __future__ import annotations

import re
from typing import Any

import pytest
from serving.calling import call, guarded

from regard.serving.log import write

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [0-9a-f]{16} (\S+) (\S+) (\d{3}) \d+ ms")


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_S16_one_line_says_what_was_asked_and_how_it_was_answered(capsys: pytest.CaptureFixture[str]) -> None:
    app = guarded(log_requests=True)
    app.get("/api/{task}")(lambda task: {})
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/fields", {"query": "api_key=secret&q=text"}),
        ("GET", "/api/some-task", {}),
        ("GET", "/secret-nothing", {}),
        ("PUT", "/fields", {}),
        ("GET", "/health", {"host": "evil.example"}),
    ]
    ids = [call(app, method, path, **more).headers["x-request-id"] for method, path, more in asked]
    said = lines(capsys)
    assert [found.groups() for line in said if (found := LINE.fullmatch(line))] == [
        ("POST", "/fields", "200"),
        ("GET", "/api/{task}", "200"),
        ("GET", "-", "404"),
        ("PUT", "/fields", "405"),
        ("GET", "/health", "403"),
    ]
    assert [line.split()[1] for line in said] == ids, "the same id in the log and in the answer"
    assert not re.search(r"secret|text|evil|127\.0", "".join(said))


@pytest.mark.parametrize("evil", ["\n", "\r\n", "\x1b[2J", "\x9b31m", "\x85", "\u2028", "\x00", "\x07"])
def test_S16_nothing_that_is_sent_reaches_the_log_as_it_is(evil: str, capsys: pytest.CaptureFixture[str]) -> None:
    forged = f"x{evil}2026-01-01T00:00:00.000Z 0123456789abcdef GET /forged 200 1 ms"
    app = guarded(log_requests=True)
    call(app, "POST", f"/{forged}", query=f"q={forged}")
    call(app, forged, "/health")
    call(app, "POST", "/fields", q=forged)
    call(app, "POST", "/fields", headers={"X-Request-ID": forged.encode().decode("latin-1"), "User-Agent": "x\x1b[2J"})
    said = capsys.readouterr().err
    assert said.count("\n") == 4
    assert "/forged" not in said
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028]", said)


def test_S16_whatever_is_written_stays_one_harmless_line(capsys: pytest.CaptureFixture[str]) -> None:
    write("a\r\nb\x1b[31mc\u2028d\x9be\ud800")
    assert capsys.readouterr().err in ("a b\\x1b[31mc d\\x9be\\ud800\n",)


def test_S16_the_log_can_be_turned_off(capsys: pytest.CaptureFixture[str]) -> None:
    call(guarded(log_requests=False), "GET", "/health")
    assert lines(capsys) == []


def test_a_log_that_nobody_reads_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        encoding = "utf-8"

        def write(self, text: str) -> None:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", Closed())
    assert call(guarded(log_requests=True), "GET", "/health").status == 200
