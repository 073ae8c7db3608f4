"""Error responses: their shape, their messages, and what they must not reveal."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import BaseModel, Field
from serving.calling import call, guarded
from serving.fakes import FOLDERS, FakePool
from starlette.exceptions import HTTPException

from regard.errors import UserError
from regard.serving.http.http_error import HttpError
from regard.serving.text.translator import UnsupportedLanguage
from regard.serving.workers.errors import JobFailed, JobRefused, ServerBusy

TELLING = re.compile(
    rb"Traceback|File \"|\.py|site-packages|/srv|/usr|/home|starlette|fastapi|pydantic|uvicorn|python|\d+\.\d+\.\d+",
    re.IGNORECASE,
)


class Shape(BaseModel):
    name: str
    size: int = Field(ge=1, le=9)


def raising(error: Exception, **settings: Any) -> Any:
    app = guarded(**settings)

    @app.get("/raise")
    @app.get("/v2/raise")
    async def route() -> None:
        raise error

    return app


@pytest.mark.parametrize(
    "error, status, message",
    [
        (HttpError(418, "a teapot"), 418, "a teapot"),
        (ServerBusy(2.3), 503, "The server is busy; try again in 3 s"),
        (JobFailed("memory did not suffice"), 503, "memory did not suffice"),
        (JobRefused("beam: 99 is too many"), 400, "beam: 99 is too many"),
        (UserError("no model 'x'"), 400, "no model 'x'"),
        (UnsupportedLanguage("zz is not supported"), 400, "zz is not supported"),
        (HTTPException(400, "Invalid form"), 400, "Invalid form"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_S15_errors_are_json_in_the_shape_of_their_contract(error: Exception, status: int, message: str) -> None:
    app = raising(error)
    libre, deepl = call(app, "GET", "/raise"), call(app, "GET", "/v2/raise")
    assert (libre.status, libre.json()) == (status, {"error": message})
    assert (deepl.status, deepl.json()) == (status, {"message": message})
    assert libre.headers["content-type"] == "application/json"
    assert ("retry-after" in libre.headers) == (status == 503)
    if isinstance(error, ServerBusy):
        assert libre.headers["retry-after"] == "3"


def test_S15_a_problem_may_have_headers() -> None:
    assert call(raising(HttpError(429, "slow", {"Retry-After": "7"})), "GET", "/raise").headers["retry-after"] == "7"


def test_S15_a_mistake_of_ours_is_told_only_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    app = guarded(log_requests=True)

    @app.get("/v2/boom/{name}")
    async def boom(name: str) -> None:
        raise RuntimeError(f"secret of {FOLDERS}: \r\n\x1b[31m2026 0 GET /forged 200")

    reply = call(app, "GET", "/v2/boom/some-name")
    id = reply.headers["x-request-id"]
    assert (reply.status, reply.json()) == (500, {"message": f"Internal error; see the server's log under {id}"})
    lines = capsys.readouterr().err.splitlines()
    assert any("RuntimeError: secret of" in line for line in lines), "the traceback is there"
    assert any("test_error_responses.py" in line for line in lines)
    assert all(re.match(rf"\S+Z {id} (\||GET /v2/boom/{{name}} 500 )", line) for line in lines), "each below the id"
    assert not any("\x1b" in line for line in lines)


def test_S15_a_mistake_is_logged_even_where_requests_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    call(raising(RuntimeError("x")), "GET", "/raise")
    said = capsys.readouterr().err
    assert "RuntimeError: x" in said and " 500 " not in said


@pytest.mark.parametrize("error", [UserError, JobRefused, JobFailed])
def test_S15_no_path_is_shown(error: type[Exception]) -> None:
    said = f"{FOLDERS}/fr-en: weights.safetensors is damaged; look at '/var/lib/x y/z.log' or https://a.example/b and/or 1/2"
    shown = call(raising(error(said)), "GET", "/raise").json()["error"]
    assert "/srv" not in shown and "/var/lib" not in shown
    assert shown.startswith("fr-en: weights.safetensors is damaged")
    assert "https://a.example/b and/or 1/2" in shown


def test_S15_unknown_paths_and_methods_are_json_too() -> None:
    app = guarded()
    app.put("/fields")(lambda: None)
    for path, status in (("/nothing", 404), ("/translate/", 404), ("/../etc/passwd", 404), ("/api", 404)):
        reply = call(app, "GET", path)
        assert (reply.status, reply.json()) == (status, {"error": "Not found"})
    assert call(app, "GET", "/v2/nothing").json() == {"message": "Not found"}
    wrong = call(app, "DELETE", "/fields")
    assert (wrong.status, wrong.json()) == (405, {"error": "Method not allowed"})
    assert wrong.headers["allow"] == "GET, POST, PUT"
    assert call(app, "GET", "/translate").headers["allow"] == "POST"


def test_S15_what_a_schema_refuses_is_said_in_one_line() -> None:
    app = guarded()

    @app.post("/shape/{number}")
    async def shape(number: int, body: Shape, flag: bool = False) -> None: ...

    good = {"name": "a", "size": 1}
    assert call(app, "POST", "/shape/1", **good).status == 200
    for sent, where in (
        ({"name": "a", "size": 10}, "size: "),
        ({"size": 1}, "name: "),
        ({"name": [1], "size": 1}, "name: "),
        ({"name": "a", "size": {}}, "size: "),
    ):
        reply = call(app, "POST", "/shape/1", **sent)
        assert reply.status == 400
        assert reply.json()["error"].startswith(f"Invalid request: {where}") and "\n" not in reply.json()["error"]
        assert not TELLING.search(reply.body), reply.body
    assert call(app, "POST", "/shape/x", **good).json()["error"].startswith("Invalid request: path.number: ")
    assert call(app, "POST", "/shape/1", query="flag=maybe", **good).status == 400
    broken = call(app, "POST", "/shape/1", body=b'{"name": ', headers={"Content-Type": "application/json"})
    assert broken.status == 400 and not TELLING.search(broken.body)
    deep = call(app, "POST", "/shape/1", body=b"[" * 100_000, headers={"Content-Type": "application/json"})
    assert deep.status == 400 and not TELLING.search(deep.body)


def test_S15_nothing_tells_how_the_server_is_made() -> None:
    app = raising(RuntimeError(f"at {FOLDERS}"))
    asked: list[dict[str, Any]] = [
        {"method": "GET", "path": "/raise"},
        {"method": "GET", "path": "/nothing"},
        {"method": "PATCH", "path": "/fields"},
        {"method": "POST", "path": "/fields", "body": b"{", "headers": {"Content-Type": "application/json"}},
        {"method": "POST", "path": "/fields", "body": b"x", "headers": {"Content-Type": "multipart/form-data"}},
        {"method": "POST", "path": "/fields", "query": "q=%ff"},
        {"method": "GET", "path": "/health", "host": "evil"},
        {"method": "GET", "path": "/health", "host": None},
        {"method": "POST", "path": "/raw", "headers": {"Content-Encoding": "gzip"}},
    ]
    for ask in asked:
        reply = call(app, **ask)
        assert reply.status >= 400
        assert not TELLING.search(
            reply.body + repr({k: v for k, v in reply.headers.items() if k != "x-request-id"}).encode()
        ), reply


def test_S15_a_message_does_not_send_a_book_back() -> None:
    reply = call(raising(UnsupportedLanguage("x" * 100_000 + " is not supported")), "GET", "/raise")
    assert len(reply.body) < 400
    assert call(raising(UnsupportedLanguage("\ud800 is not supported")), "GET", "/raise").status == 400


def test_S15_an_error_in_the_middle_of_an_answer_breaks_it_off(capsys: pytest.CaptureFixture[str]) -> None:
    reply = call(guarded(FakePool(error=RuntimeError("late"))), "POST", "/stream")
    assert (reply.status, reply.whole) == (200, False)
    assert "RuntimeError: late" in capsys.readouterr().err
