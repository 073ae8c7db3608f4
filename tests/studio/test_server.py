"""The studio's server: whom it lets in, what may be asked of it, and that it does without what cannot be loaded."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from http.client import HTTPConnection

import pytest
from serving.running import ROOT, environment
from studio.browsing import asked, write_tiny

from regard.cli import main
from regard.errors import UserError
from regard.serving.catalogue import Catalogue, ServedModel
from regard.serving.http import server
from regard.serving.settings import Settings
from regard.serving.workers.worker_pool import WorkerPool
from regard.studio import models
from regard.studio.app import code_page, page_files, sources
from regard.studio.questions import module_of, question_names


def called(studio: str, method: str, path: str, body: object = None, **headers: str) -> tuple[int, dict[str, str], str]:
    connection = HTTPConnection(studio.removeprefix("http://"), timeout=30)
    sent = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request(method, path, None if body is None else json.dumps(body), sent)
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()


def test_a_worker_does_without_an_optional_model(tmp_path):
    good = write_tiny(tmp_path / "good", "tiny-none")
    models = [
        ServedModel("good", good, "translate"),
        ServedModel("gone", tmp_path / "gone", "translate", optional=True),
    ]

    async def started() -> tuple[dict[str, str], object]:
        pool = WorkerPool(Settings(workers=1, device="cpu", precision="float32", warm=False), Catalogue(models))
        await pool.start()
        try:
            request = {"model": "good", "text": "oui", "view": "beam"}
            return pool.failed, await pool.run_task("good", "draw_view", request, family="questions")
        finally:
            await pool.close()

    failed, answer = asyncio.run(started())
    assert list(failed) == ["gone"] and "gone" in failed["gone"]
    assert answer["pictures"][0]["svg"].startswith("<svg")


def test_what_loads_for_too_long_is_left_out_after_the_time_that_was_said(tmp_path, monkeypatch):
    seen: list[Settings] = []
    monkeypatch.setattr(server, "listen", lambda settings, *others: seen.append(settings) or 0)
    model = write_tiny(tmp_path / "good", "tiny-none")
    monkeypatch.setattr(sys, "argv", ["regard", "studio", "--only", "-m", str(model), "--load-timeout", "7.5"])
    with pytest.raises(SystemExit):
        main()
    assert [settings.load_timeout for settings in seen] == [7.5]


def test_a_model_folder_may_have_any_name_and_the_first_of_two_is_kept(tmp_path):
    odd = write_tiny(tmp_path / "<img src=x onerror=alert(1)>{{7*7}}", "tiny-none")
    found = models.collect([str(odd)], shipped=False)
    (model,) = found.catalogue.models.values()
    assert re.fullmatch(r"[A-Za-z0-9._-]+", model.name)
    assert models.describe(model)["title"] == "recurrent, no attention"
    (transformer,) = models.collect(
        [str(write_tiny(tmp_path / "t", "tiny-transformer"))], False
    ).catalogue.models.values()
    assert models.describe(transformer)["title"] == "Transformer"
    with pytest.raises(UserError, match="no model to show"):
        models.collect([], shipped=False)


@pytest.mark.parametrize(
    "path",
    [
        "code/regard/../setup.py",
        "code/%2e%2e/setup.py",
        "code//etc/passwd",
        "code/regard/py.typed",
        "views/../../app.py",
    ]
    + ["..%2fapp.py", "code/regard\\errors.py", "nothing.js", "code/", "views/", "ask/heads", "main.js%00"],
)
def test_S4_only_files_of_the_listing_are_served(studio, path):
    status, _, body = called(studio, "GET", f"/studio/{path}")
    assert status in (400, 404, 405) and "/" not in json.loads(body)["error"]


def test_S10_the_page_may_run_only_its_own_scripts(studio):
    status, headers, body = called(studio, "GET", "/studio/")
    assert status == 200 and "style=" not in body and "onclick" not in body
    policy = headers["content-security-policy"]
    assert "script-src 'self';" in policy and "unsafe" not in policy and "default-src 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    assert called(studio, "GET", "/")[1]["location"] == "/studio/"
    assert json.loads(called(studio, "GET", "/health")[2]) == {"status": "ok"}


def test_S11_no_other_site_may_ask(studio):
    request = {"model": "tiny-none", "text": "oui", "view": "beam"}
    assert called(studio, "POST", "/studio/ask/draw_view", request)[0] == 200
    assert called(studio, "POST", "/studio/ask/draw_view", request, Origin="http://evil.example")[0] == 403
    assert called(studio, "GET", "/studio/models", Host="evil.example")[0] == 403
    assert called(studio, "GET", "/studio/", Host="evil.example")[0] == 403


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": "nobody"},
        {"model": "../tiny-none"},
        {"text": "x" * 20_000},
        {"text": "x" * 200},
        {"text": ["a"]},
        {"beam": 10**9},
        {"beam": 0},
        {"layer": -1},
        {"view": "nothing"},
        {"only": 99},
        {"attention": "sideways", "view": "heads"},
        {"surprise": 1},
    ],
    ids=str,
)
def test_S6_what_is_asked_is_bounded_and_refused_in_one_line(studio, wrong):
    request = {"model": "tiny-transformer", "text": "oui", "view": "beam", **wrong}
    status, _, body = called(studio, "POST", "/studio/ask/draw_view", request)
    assert (status, wrong) == (200, wrong) if "attention" in wrong else status in (400, 404)
    assert "attention" in wrong or (said := json.loads(body)["error"]) and "\n" not in said and len(said) < 200


def test_every_link_to_code_names_a_definition():
    """The views' `code`: `regard/FILE.py`, or `regard/FILE.py:Name.method`."""
    known, found = sources(), 0
    for name, path in page_files().items():
        for file, _, definition in re.findall(r'"(regard/[\w/]+\.py)(:([\w.]+))?"', path.read_text(encoding="utf-8")):
            assert file in known, name
            assert not definition or f'data-name="{definition}"' in code_page(file, known[file].read_text()), name
            found += 1
    assert found > 20


def test_every_question_has_a_bounded_request():
    assert {"translate", "draw_view"} <= set(question_names())
    for question in question_names():
        schema = module_of(question).Request.model_json_schema()
        assert schema["additionalProperties"] is False
        for name, field in schema["properties"].items():
            kinds = [field, *field.get("anyOf", [])]
            for kind in kinds:
                if kind.get("type") == "string":
                    assert "maxLength" in kind or "enum" in kind or "const" in kind, f"{question}.{name}"
                if kind.get("type") in ("integer", "number"):
                    assert {"maximum", "exclusiveMaximum"} & set(kind), f"{question}.{name}"


def test_the_http_side_never_imports_torch():
    code = (
        "import sys; from regard.studio import app, questions;"
        "[questions.module_of(name) for name in questions.question_names()];"
        "assert 'torch' not in sys.modules, 'torch'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment(), cwd=ROOT, timeout=60)


def test_R14_what_nobody_waits_for_any_more_is_not_computed(studio):
    """Many who ask and go away do not keep the next one waiting as long as answering them would have taken."""
    slow = {"model": "tiny-universal", "text": "elle a lu ce livre " * 6, "view": "beam", "beam": 16}
    asked(studio, "draw_view", **slow)
    began = time.monotonic()
    asked(studio, "draw_view", **{**slow, "text": f"{slow['text']}x"})
    alone, many = time.monotonic() - began, 8
    for number in range(many):
        connection = HTTPConnection(studio.removeprefix("http://"), timeout=30)
        body = json.dumps({**slow, "text": f"{slow['text']}{number}"})
        connection.request("POST", "/studio/ask/draw_view", body, {"Content-Type": "application/json"})
        connection.close()
    began = time.monotonic()
    asked(studio, "draw_view", model="tiny-none", text="bien", view="beam")
    assert time.monotonic() - began < many * alone / 2
