"""The routes of /api: requests that reach the pool, requests that are refused, and the shape of responses."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from serving.calling import Reply, calling
from serving.fakes import FOLDERS, FakePool
from serving.running import ROOT

from regard.serving.catalogue import Catalogue, ServedModel
from regard.serving.http.app import app_with_middleware
from regard.serving.http.routes import tasks
from regard.serving.settings import Settings
from regard.serving.workers.errors import JobFailed, JobRefused, ServerBusy
from regard.serving.workers.tasks import module_of, task_names
from regard.serving.workers.tasks._request import FileTaskRequest, example_of
from regard.serving.workers.translation_result import SearchOptions

TASKS = task_names()
OTHERS = [task for task in TASKS if task != "translate"]
JSON_TASKS = [t for t in TASKS if not issubclass(module_of(t).Request, FileTaskRequest)]
FILE_TASKS = [t for t in TASKS if t not in JSON_TASKS]
PNG = b"\x89PNG\r\n\x1a\n not looked at here"


PAIRS = [ServedModel(f"{a}-{b}", FOLDERS / f"{a}-{b}", "translate", a, b) for a, b in (("fr", "en"), ("en", "fr"))]
NONE = Catalogue([])
USUAL = Catalogue([*PAIRS, *(ServedModel(f"a-{task}r", FOLDERS / task, task) for task in OTHERS)])
"""Two translators, and one model for every other task, named after it."""


class Given:
    """Delegates to the pool of the current test."""

    pool: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pool, name)


@functools.cache
def server(models: Catalogue, limits: Settings) -> tuple[FastAPI, Given]:
    """Shared by many tests: creating it takes longer than most of them."""
    pool = Given()
    routes = tasks.router(limits, models, pool)  # type: ignore[arg-type]
    return app_with_middleware(limits, models, pool, [routes], log_requests=False), pool  # type: ignore[arg-type]


def app(pool: Any = None, models: Catalogue | None = None, **settings: Any) -> FastAPI:
    made, given = server(models or USUAL, Settings(**settings))
    given.pool = pool or FakePool()
    return made


def ask(task: str, pool: Any = None, models: Catalogue | None = None, settings: Any = None, **asked: Any) -> Reply:
    return asyncio.run(calling(app(pool, models, **(settings or {})), "POST", f"/api/{task}", **asked))


def send(task: str, content: bytes, kind: str = "image/png", query: str = "", **more: Any) -> Reply:
    return ask(task, body=content, headers={"Content-Type": kind}, query=query, **more)


def good(task: str) -> dict[str, Any]:
    """A valid request, as arguments of `ask`."""
    form = module_of(task).Request
    if issubclass(form, FileTaskRequest):
        return {"body": PNG, "headers": {"Content-Type": form.media[0]}}
    return {**example_of(form), **({"model": "fr-en"} if task == "translate" else {})}


# ------------------------------------------------------------------------------------------------------------- answers


def test_the_models_are_told_by_name_and_never_by_path():
    reply = asyncio.run(calling(app(), "GET", "/api/models"))
    found = reply.json()["models"]
    assert found[0] == {"name": "fr-en", "task": "translate", "source": "fr", "target": "en"}
    assert {"name": "a-captionr", "task": "caption"} in found and len(found) == 10
    assert str(FOLDERS) not in reply.body.decode()


def test_a_translation_comes_with_all_that_was_asked_for():
    pool = FakePool()
    how = {"beam": 6, "n_best": 2, "length_penalty": 0.5, "max_length": 40, "alignment": True, "attention": True}
    reply = ask("translate", pool=pool, text=["je suis", ""], model="fr-en", **how)
    assert pool.calls == [("fr-en", ["je suis", ""], SearchOptions(**how))]
    first, second = reply.json()["answers"]
    assert reply.json()["model"] == "fr-en" and (second["text"], second["attention"]["weights"]) == ("", [])
    assert {key: first[key] for key in ("text", "score", "log_probability", "tokens", "finished", "alignment")} == {
        "text": "JE SUIS",
        "score": -0.5,
        "log_probability": -0.5,
        "tokens": ["JE", "SUIS"],
        "finished": True,
        "alignment": [[0, 0], [1, 1]],
    }
    assert first["attention"] == {
        "source": ["je", "suis"],
        "target": ["JE", "SUIS"],
        "weights": [[1.0, 0.0], [0.0, 1.0]],
    }
    assert [other["text"] for other in first["alternatives"]] == ["JE SUIS (1)"]


def test_a_plain_translation_says_no_more_than_needed():
    (found,) = ask("translate", text="je suis", model={"source": "FR", "target": "en"}).json()["answers"]
    assert set(found) == {"text", "score", "log_probability", "tokens", "finished", "alternatives"}


def test_a_model_is_found_by_name_by_languages_or_because_it_is_the_only_one():
    only = Catalogue([ServedModel("fr-en", FOLDERS / "fr-en", "translate", "fr", "en")])
    assert ask("translate", models=only, text="a").json()["model"] == "fr-en"
    assert ask("translate", text="a", model="en-fr").json()["model"] == "en-fr"
    assert ask("translate", text="a", model={"source": "en", "target": "fr"}).json()["model"] == "en-fr"
    reply = ask("translate", text="a")
    assert (reply.status, reply.json()["error"]) == (400, "several models translate: name one of en-fr, fr-en")
    reply = ask("translate", text="a", model={"source": "en", "target": "de"})
    assert (reply.status, reply.json()["error"]) == (404, "no model of this server translates from en to de")


@pytest.mark.parametrize("task", OTHERS)
def test_other_tasks_are_passed_on(task):
    pool = FakePool()
    asked = good(task)
    reply = ask(task, pool=pool, **asked)
    assert reply.status == 200 and reply.json()["model"] == f"a-{task}r"
    ((model, name, request),) = pool.calls
    assert (model, name) == (f"a-{task}r", task) and "model" not in request
    if task in JSON_TASKS:
        assert asked.items() <= request.items()
    else:
        assert base64.b64decode(request["content"]) == PNG
    module_of(task).Request.model_validate(request)  # the worker can read it


def test_files_have_their_options_in_the_address():
    pool = FakePool()
    assert send("caption", PNG, query="beam=4&n_best=2&model=a-captionr", pool=pool).status == 200
    assert pool.calls[0][2] == {"beam": 4, "n_best": 2, "content": base64.b64encode(PNG).decode()}
    for query, said in (("beam=x", "beam: input should be a valid integer"), ("bean=4", "bean: extra inputs"), ("beam=33", "beam: this server takes 32 at most"), ("beam=4&beam=5", "beam: ")):  # fmt: skip
        reply = send("caption", PNG, query=query, pool=pool)
        assert reply.status == 400 and reply.json()["error"].startswith(said)
    assert len(pool.calls) == 1


def test_classifying_takes_fields_or_a_file():
    pool = FakePool()
    assert ask("classify", pool=pool, text="fine").status == 200
    assert send("classify", b"RIFF", "audio/wav", query="top=2", pool=pool).status == 200
    assert send("classify", b"RIFF", "application/octet-stream", pool=pool).status == 200
    assert [sorted(request) for _, _, request in pool.calls] == [
        ["text", "top"],
        ["content", "top"],
        ["content", "top"],
    ]


@pytest.mark.parametrize("task", TASKS)
def test_a_body_of_another_kind_is_refused_with_those_there_are(task):
    for kind in ("text/plain", "application/zip", "video/mp4"):
        reply = send(task, b"text", kind)
        assert reply.status == 415
        assert ("application/json" in reply.json()["error"]) == (task in JSON_TASKS)
        assert ("application/octet-stream" in reply.json()["error"]) == (task in (*FILE_TASKS, "classify"))
    if task in FILE_TASKS:
        assert ask(task, text="a").status == 415
    elif task != "classify":
        assert send(task, PNG).status == 415


@pytest.mark.parametrize("task", FILE_TASKS)
def test_an_empty_file_is_refused(task):
    reply = send(task, b"")
    assert (reply.status, reply.json()["error"]) == (400, "The body is empty; send the file itself as the body")


@pytest.mark.parametrize("task", TASKS)
def test_a_task_that_no_model_is_made_for_says_so(task):
    reply = ask(task, models=NONE, **{**good(task), **({"model": ""} if task == "translate" else {})})
    assert (reply.status, reply.json()) == (404, {"error": f"no model of this server can {task}"})


def test_an_answer_that_json_cannot_hold_is_refused():
    class Endless(FakePool):
        async def run_task(self, model: str, task: str, request: dict[str, Any]) -> dict[str, Any]:
            return {"answers": [{"probability": float("nan")}]}

    reply = ask("classify", pool=Endless(), series=[[1e18]])
    assert reply.status == 400 and "not finite" in reply.json()["error"]


def test_keys_open_the_routes_and_say_whose_a_request_is():
    pool, keys = FakePool(), {"api_keys": ("secret",)}
    for task in TASKS:
        assert ask(task, settings=keys, **good(task)).status == 401
    assert ask("translate", pool=pool, settings=keys, api_key="secret", **good("translate")).status == 200
    assert send("caption", PNG, query="api_key=secret", settings=keys).status == 200
    assert pool.owners[0] not in ("", "secret")


# -------------------------------------------------------------------------------------------------------------- streaming


class Writing(FakePool):
    """Three tokens and the whole; or an error after `after` tokens."""

    def __init__(self, error: Exception | None = None, after: int = 0, seconds: float = 0.0):
        super().__init__(seconds)
        self.raised, self.after, self.closed = error, after, False

    async def stream(self, model: str, task: str, request: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        self.calls.append((model, task, request))
        try:
            for number in range(3):
                if self.raised and number == self.after:
                    raise self.raised
                await self._work()
                yield {"text": "a\n", "token": "a", "probability": 0.5}
            yield {"done": {"text": "a\na\na\n", "seed": 1}}
        finally:
            self.closed = True


def test_a_text_is_sent_as_it_is_written():
    pool = Writing()
    reply = ask("generate", pool=pool, prompt="A", stream=True)
    assert reply.headers["content-type"].startswith("text/event-stream") and pool.calls[0][2]["prompt"] == "A"
    *pieces, last, rest = reply.body.decode().split("\n\n")
    assert [json.loads(piece.removeprefix("data: ")) for piece in pieces] == [
        {"text": "a\n", "token": "a", "probability": 0.5}
    ] * 3
    name, data = last.split("\n")
    assert name == "event: done" and rest == ""
    assert json.loads(data.removeprefix("data: ")) == {"model": "a-generater", "text": "a\na\na\n", "seed": 1}
    assert ask("generate", prompt="A", stream=False).headers["content-type"] == "application/json"


@pytest.mark.parametrize(("error", "status"), [(JobRefused("no"), 400), (ServerBusy(3), 503), (JobFailed("no"), 503)])
def test_what_is_refused_at_once_is_refused_with_a_status(error, status):
    assert ask("generate", pool=Writing(error), stream=True).status == status


def test_what_fails_on_the_way_says_so_in_the_stream():
    reply = ask("generate", pool=Writing(JobFailed("lost"), after=2), stream=True)
    assert reply.status == 200 and reply.body.count(b"data: ") == 3
    assert reply.body.endswith(b'event: error\ndata: {"error": "lost"}\n\n')


def test_R14_a_stream_that_nobody_reads_any_more_is_ended():
    pool = Writing(seconds=0.05)
    body = json.dumps({"stream": True}).encode()
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await asyncio.sleep(0.08)  # after the first token
        return {"type": "http.disconnect"}

    headers = {"Content-Type": "application/json"}
    asyncio.run(calling(app(pool), "POST", "/api/generate", body=body, headers=headers, receive=receive))
    assert pool.closed and pool.cancelled == 1


# ------------------------------------------------------------------------------------------------------------ names, limits

NAMES = ["../fr-en", "..", "%2e%2e%2ffr-en", "/etc/passwd", "/srv/models/fr-en", "C:\\models\\fr-en", "..\\fr-en", "fr-en\0", "\0", "fr-en/", "./fr-en", "fr-e", "fr-en2", "CON", "NUL", "COM1", "/dev/null", "fr-en\n", "~", "~root", "$HOME", "file:///etc/passwd", "\uff0e\uff0e\uff0ffr-en", "a" * 5000]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_S4_a_models_name_is_never_a_path(name):
    """Names are only looked up among the served models, in JSON and in query strings; the pool never sees others."""
    pool = FakePool()
    here = app(pool)
    written = {f"model={quote(name)}", f"model={quote(name, safe='')}", f"model={name}"}
    asked = [(task, {**good(task), "model": name}) for task in JSON_TASKS]
    asked += [(task, {**good(task), "query": query}) for task in FILE_TASKS for query in written if query.isascii()]
    for task, how in asked:
        reply = asyncio.run(calling(here, "POST", f"/api/{task}", **how))
        said = reply.json()["error"]
        assert reply.status in (400, 404) and "/" not in said and "\\" not in said and "srv" not in said, (task, said)
    assert not pool.calls


def test_S4_a_model_of_another_task_is_not_found():
    for task, name in (("classify", "fr-en"), ("translate", "a-tagr")):
        reply = ask(task, text="a", model=name)
        assert reply.status == 404 and reply.json()["error"].startswith(f"no model '{name}' to {task}; there is: ")


LIMITS = [
    ("translate", {"text": "a" * 11}, "11 characters of text; this server takes 10 at once"),
    ("translate", {"text": ["a" * 6, "b" * 5]}, "11 characters of text"),
    ("translate", {"text": ["a"] * 4}, "4 texts; this server takes 3 at once"),
    ("translate", {"text": "a", "beam": 5}, "beam: this server takes 4 at most"),
    ("translate", {"text": "a", "n_best": 5}, "n_best: this server takes 4 at most"),
    ("translate", {"text": "a", "max_length": 1025}, "max_length: input should be less than or equal to 1024"),
    ("classify", {"text": ["a"] * 4}, "4 texts"),
    ("tag", {"text": "a" * 11}, "11 characters of text"),
    ("fill", {"text": "_" * 11}, "11 characters of text"),
    ("generate", {"prompt": "a" * 11}, "11 characters of text"),
]


@pytest.mark.parametrize(("task", "asked", "said"), LIMITS)
def test_S6_the_servers_limits_hold_before_anything_is_computed(task, asked, said):
    pool, limits = FakePool(), {"char_limit": 10, "batch_limit": 3, "beam_limit": 4}
    more = {"model": "fr-en"} if task == "translate" else {}
    reply = ask(task, pool=pool, settings=limits, **asked, **more)
    assert reply.status == 400 and reply.json()["error"].startswith(said) and not pool.calls
    none = {"char_limit": -1, "batch_limit": -1, "beam_limit": -1}
    assert (ask(task, settings=none, **asked, **more).status == 200) == ("max_length" not in asked)


def test_S6_matrices_of_long_texts_are_not_made():
    pool = FakePool()
    for words, how, status in (
        (300, {"attention": True}, 200),
        (320, {"attention": True}, 400),
        (200, {"attention": True, "n_best": 3}, 400),
        (320, {"alignment": True}, 200),
        (2001, {"alignment": True}, 400),
        (2001, {}, 200),
    ):
        assert ask("translate", pool=pool, model="fr-en", text="a " * words, **how).status == status, (words, how)
    assert len(pool.calls) == 3


WRONG = [None, True, 0, -1, 1.5, 10**18, 1e300, "", "x", "\0", [], [[]], [None], {}, {"a": 1}, ["a"] * 2, [[1.0, "x"]], [["1"]]]  # fmt: skip


@pytest.mark.parametrize("task", JSON_TASKS)
def test_S6_anything_in_any_field_is_answered_at_once_and_never_with_a_mistake_of_ours(task):
    """Only valid requests reach the pool; others get one line of error."""
    pool = FakePool()
    here, form = app(pool), module_of(task).Request
    for field in form.model_fields:
        for value in WRONG:
            asked = {**good(task), field: value}
            begun = time.process_time()
            reply = asyncio.run(calling(here, "POST", f"/api/{task}", **asked))
            assert reply.status in (200, 400, 404), (field, value, reply.body)
            assert time.process_time() - begun < 0.5, (field, value)
            if reply.status == 200:
                form.model_validate(asked)
            else:
                assert "\n" not in reply.json()["error"] and len(reply.json()["error"]) < 200


HUGE = [
    ("translate", {"beam": 10**6}),
    ("translate", {"n_best": 10**9}),
    ("translate", {"max_length": 10**9}),
    ("translate", {"length_penalty": 1e9}),
    ("translate", {"text": "a" * 100_001}),
    ("translate", {"text": ["a"] * 1001}),
    ("generate", {"length": 10**9}),
    ("generate", {"length": 0}),
    ("generate", {"temperature": 0}),
    ("generate", {"temperature": 1e9}),
    ("generate", {"top_p": 0}),
    ("generate", {"top_p": 1.01}),
    ("generate", {"top_k": -1}),
    ("generate", {"seed": 2**53}),
    ("generate", {"seed": -1}),
    ("fill", {"top": 101}),
    ("classify", {"top": 0}),
    ("forecast", {"horizon": 10**6}),
    ("forecast", {"series": [[1.0] * 1001]}),
    ("forecast", {"series": [[1.0]] * 10_001}),
    ("forecast", {"series": [[1e19]]}),
    ("tag", {"unknown": 1}),
]


@pytest.mark.parametrize(("task", "more"), HUGE)
def test_S6_what_is_out_of_bounds_is_refused_at_once(task, more):
    pool = FakePool()
    here = app(pool)
    seconds = []
    for _ in range(2):  # the garbage of other tests may be collected during one of them
        begun = time.process_time()
        reply = asyncio.run(calling(here, "POST", f"/api/{task}", **{**good(task), **more}))
        seconds.append(time.process_time() - begun)
    assert reply.status == 400 and min(seconds) < 0.5 and not pool.calls
    assert next(iter(more)) in reply.json()["error"], reply.body


@pytest.mark.parametrize("body", [b'{"text": NaN}', b'{"text": "\\ud800"}', b'{"series": [[1e999]]}', b'{"beam": ' + b"9" * 5000 + b"}", b'{"text": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", b"[]", b"{", b""])  # fmt: skip
def test_S6_malformed_json_is_refused(body):
    for task in JSON_TASKS:
        assert ask(task, body=body, headers={"Content-Type": "application/json"}).status == 400


# ------------------------------------------------------------------------------------------------------------ documentation


def test_every_route_is_documented_with_an_example_that_works():
    tree = app().openapi()
    assert {f"/api/{task}" for task in TASKS} < set(tree["paths"])
    for task in TASKS:
        told = tree["paths"][f"/api/{task}"]["post"]
        module = module_of(task)
        answer = told["responses"]["200"]["content"]["application/json"]
        module.Answer.model_validate(answer["example"], extra="forbid")
        assert set(answer["schema"]["required"]) <= set(answer["example"])
        content = told["requestBody"]["content"]
        if task in JSON_TASKS:
            module.Request.model_validate(content["application/json"]["example"])
            assert set(content["application/json"]["schema"]["properties"]) == set(module.Request.model_fields)
        if task in (*FILE_TASKS, "classify"):
            assert content["application/octet-stream"]["schema"] == {"type": "string", "format": "binary"}
            assert "model" in [parameter["name"] for parameter in told["parameters"]]
            assert "content" not in [parameter["name"] for parameter in told["parameters"]]
        assert told["summary"] and "$ref" not in json.dumps(told)


def test_every_field_is_bounded():
    """Each string has a maximum length, each list a maximum size, each number a range."""

    def unbounded(schema: Any, where: str) -> list[str]:
        if isinstance(schema, list):
            return [found for part in schema for found in unbounded(part, where)]
        if not isinstance(schema, dict):
            return []
        wanted = {
            "string": ["maxLength"],
            "array": ["maxItems"],
            "integer": ["minimum|exclusiveMinimum", "maximum|exclusiveMaximum"],
            "number": ["minimum|exclusiveMinimum", "maximum|exclusiveMaximum"],
            "object": ["additionalProperties"],
        }.get(schema.get("type", ""), [])
        lacking = [f"{where}: {need}" for need in wanted if not any(name in schema for name in need.split("|"))]
        return lacking + [found for name, part in schema.items() for found in unbounded(part, f"{where}.{name}")]

    for task in TASKS:
        for form in tasks._request_types(module_of(task)):
            schema = tasks._schema(form)
            schema["properties"].pop("content", None)  # a body's limit is the server's
            assert unbounded(schema, task) == []


def test_the_http_process_never_imports_torch():
    script = "import sys, regard.serving.http.routes.tasks as t; from regard.serving.settings import Settings; from regard.serving.catalogue import Catalogue; t.router(Settings(), Catalogue([]), None); print(sorted({'torch', 'PIL', 'soundfile'} & set(sys.modules)))"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "[]\n", done.stderr
