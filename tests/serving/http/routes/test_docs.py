"""The documentation page: complete, with examples that work and real answers, and with one script of its own."""

from __future__ import annotations

import re
import shlex
import time
from html.parser import HTMLParser
from typing import Any

import pytest
from serving.calling import HOST, call
from serving.fakes import FakePool, catalogue

from regard.serving.catalogue import Catalogue
from regard.serving.http.app import make_app
from regard.serving.http.routes.docs import Entry, curl, format_json, page
from regard.serving.settings import Settings

EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
NASTY = ["</code></pre><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "{{7*7}}", '" onmouseover="alert(1)', "javascript:alert(1)", "`</code><b>`", "<!--", "]]>"]  # fmt: skip


class Seen(HTMLParser):
    """All elements, attributes and texts of a page, and whether its elements are balanced."""

    def __init__(self, source: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.commands: list[str] = []
        self.open: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)
        if tag == "pre":
            self.commands.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "pre" in self.open:
            self.commands[-1] += data

    def attributes(self, name: str) -> list[str]:
        return [attributes[name] or "" for _, attributes in self.elements if name in attributes]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    settings = Settings(state=str(tmp_path_factory.mktemp("state") / "state"))
    return make_app(settings, catalogue(), FakePool(), log_requests=False)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def docs(app: Any) -> Seen:
    reply = call(app, "GET", "/docs")
    assert reply.status == 200 and reply.headers["content-type"] == "text/html; charset=utf-8"
    return Seen(reply.body.decode())


def test_the_tree_is_there_for_programs(app: Any) -> None:
    tree = call(app, "GET", "/spec").json()
    assert tree["openapi"].startswith("3.") and call(app, "GET", "/openapi.json").json() == tree
    told = {(method.upper(), path) for path, methods in tree["paths"].items() for method in methods}
    hidden = {
        ("GET", path) for path in ("/", "/page/{name}", "/docs", "/docs.css", "/docs.js", "/openapi.json", "/metrics")
    }
    there = {(method, route.path) for route in app.routes for method in route.methods - {"HEAD"}}
    assert told == there - hidden


def test_every_route_is_on_the_page_with_its_fields(app: Any, docs: Seen) -> None:
    anchors, ids = docs.attributes("href"), docs.attributes("id")
    assert len(ids) == len(set(ids))
    sections = {one for one in ids if not one.startswith("try-")}
    assert {anchor[1:] for anchor in anchors if anchor.startswith("#")} == sections
    for path, methods in app.openapi()["paths"].items():
        assert path in docs.text
        for operation in methods.values():
            assert " ".join(operation["summary"].split()) in " ".join(docs.text.split())
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            assert all(name in docs.text for name in body.get("schema", {}).get("properties", {}))


def test_the_examples_can_be_pasted(app: Any, docs: Seen) -> None:
    """Every curl command of the page, parsed as a shell would, returns the documented status (404 of an id that is none)."""
    others = {"/suggest": 403, ("POST", "/v2/glossaries"): 201}
    tree = app.openapi()
    commands = [command for command in docs.commands if command.startswith("curl ")]
    assert len(commands) > 10
    for command in commands:
        words = shlex.split(command.replace("\\\n", " "))
        path = next(word.removeprefix(f"http://{HOST}") for word in words if word.startswith("http"))
        if path.startswith("/api") or "@" in words[-1]:
            continue  # what these answer depends on the models that are there
        data = words[words.index("-d") + 1].encode() if "-d" in words else None
        headers = dict([words[words.index("-H") + 1].split(": ")]) if "-H" in words else {}
        operations = tree["paths"][path]
        method = words[words.index("-X") + 1] if "-X" in words else "POST" if "-d" in words else "GET"
        reply = call(app, method, path, body=data, headers=headers)
        assert str(reply.status) in operations[method.lower()]["responses"], command
        unknown = 404 if "{" in path else 200
        assert reply.status == others.get(path, others.get((method, path), unknown)), command


def test_S10_nothing_inline_runs_and_nothing_is_fetched_from_elsewhere(app: Any, docs: Seen) -> None:
    assert not {"iframe", "object", "form", "style", "base", "img"} & {tag for tag, _ in docs.elements}
    assert not [
        name for _, attributes in docs.elements for name in attributes if name.startswith("on") or name == "style"
    ]
    scripts = [attributes for tag, attributes in docs.elements if tag == "script"]
    assert scripts == [{"type": "module", "src": "docs.js"}] and docs.attributes("src") == ["docs.js"]
    assert {link for link in docs.attributes("href") if not link.startswith("#")} == {"data:,", "docs.css", "spec"}
    policy = call(app, "GET", "/docs").headers["content-security-policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["form-action"] == "'none'"
    assert rules["script-src"] == rules["connect-src"] == rules["style-src"] == "'self'"
    style = call(app, "GET", "/docs.css")
    assert style.status == 200 and style.headers["content-type"].startswith("text/css")
    assert b"url(" not in style.body and b"@import" not in style.body
    script = call(app, "GET", "/docs.js")
    assert script.status == 200 and script.headers["content-type"].startswith("text/javascript")
    assert not re.search(rb"innerHTML|insertAdjacent|eval|document\.write|https?://", script.body)


def test_the_responses_of_the_examples_are_those_of_the_server(app: Any, docs: Seen) -> None:
    """The pool answers in upper case: no literal can be what stands there."""
    for path in ("/translate", "/v2/translate", "/detect"):
        body = app.openapi()["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
        answer = call(app, "POST", path, **body).json()
        assert format_json(answer) in docs.commands
    assert format_json({"translatedText": "JE SUIS ÉTUDIANT."}) in docs.commands
    assert '"translatedText": "I am a student."' not in docs.text


def test_an_example_that_fails_has_no_response_and_is_asked_again() -> None:
    pool = FakePool(error=RuntimeError("no model"))
    failing = make_app(Settings(), catalogue(), pool, log_requests=False)  # type: ignore[arg-type]
    before = Seen(call(failing, "GET", "/docs").body.decode())
    assert "Not asked yet." in before.text and "JE SUIS" not in before.text
    pool.error = None
    assert "JE SUIS ÉTUDIANT." in Seen(call(failing, "GET", "/docs").body.decode()).text
    asked = len(pool.calls)
    call(failing, "GET", "/docs")
    assert len(pool.calls) == asked


def test_the_page_does_not_wait_for_a_slow_server() -> None:
    slow = make_app(Settings(), catalogue(), FakePool(seconds=20), log_requests=False)  # type: ignore[arg-type]
    began = time.monotonic()
    assert call(slow, "GET", "/docs").status == 200
    assert time.monotonic() - began < 10


def test_a_server_with_keys_answers_nobody_without_one() -> None:
    pool = FakePool()
    closed = make_app(Settings(api_keys=("secret",)), catalogue(), pool, log_requests=False)  # type: ignore[arg-type]
    assert "Not asked yet." in Seen(call(closed, "GET", "/docs").body.decode()).text
    assert call(closed, "GET", "/docs.js").status == 200
    assert call(closed, "POST", "/translate", q="a", source="fr", target="en").status != 200
    assert not pool.calls


def test_a_server_that_does_not_translate_has_a_page_too() -> None:
    poet = Catalogue(catalogue().of_task("generate"))
    alone = make_app(Settings(), poet, FakePool(), log_requests=False)  # type: ignore[arg-type]
    shown = Seen(call(alone, "GET", "/docs").body.decode())
    assert (
        not [tag for tag, _ in shown.elements if tag in ("script", "textarea")]
        and call(alone, "GET", "/languages").json() == []
    )
    assert call(alone, "POST", "/translate", q="a", source="fr", target="en").json() == {"error": "fr is not supported"}


def test_the_page_works_below_a_prefix() -> None:
    below = make_app(Settings(url_prefix="/here"), catalogue(), FakePool(), log_requests=False)  # type: ignore[arg-type]
    reply = call(below, "GET", "/here/docs")
    assert reply.status == 200 and f"http://{HOST}/here/translate" in reply.body.decode()
    assert (
        call(below, "GET", "/here/docs.js").status
        == call(below, "GET", "/here/docs.css").status
        == call(below, "GET", "/here/").status
        == 200
    )


def test_it_has_both_lights_and_a_small_screen(app: Any, docs: Seen) -> None:
    style = call(app, "GET", "/docs.css").body.decode()
    assert "prefers-color-scheme: dark" in style and re.search(r"@media \(max-width: \d+rem\)", style)
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in docs.elements


@pytest.mark.parametrize("nasty", NASTY)
def test_S9_whatever_stands_in_the_tree_is_only_text(nasty: str) -> None:
    operation = {
        "tags": [nasty],
        "summary": nasty,
        "description": nasty,
        "parameters": [
            {"name": nasty, "in": "query", "description": nasty, "schema": {"enum": [nasty], "default": nasty}}
        ],
        "requestBody": {
            "content": {
                "application/json": {
                    "schema": {"properties": {nasty: {"type": nasty, "description": nasty}}, "required": [nasty]},
                    "example": {nasty: nasty},
                }
            }
        },
        "responses": {
            "200": {"description": nasty, "content": {nasty: {"example": {nasty: [nasty]}}}},
            nasty: {"description": nasty},
        },
    }
    tree = {"info": {"title": nasty, "description": nasty}, "paths": {f"/{nasty}": {"post": operation}}}
    found, wanted = Seen(page(tree, f"http://{nasty}")), Seen(page(_renamed(tree, nasty), "http://plain"))
    # Text in backquotes becomes code; nothing else creates an element.
    elements, usual = ([tag for tag, _ in seen.elements if tag != "code"] for seen in (found, wanted))
    assert elements == usual
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    assert nasty.replace("`", "") in found.text


def _renamed(part: Any, nasty: str) -> Any:
    if isinstance(part, dict):
        return {_renamed(name, nasty): _renamed(value, nasty) for name, value in part.items()}
    if isinstance(part, list):
        return [_renamed(value, nasty) for value in part]
    return part.replace(nasty, "plain") if isinstance(part, str) else part


def test_json_that_fits_stands_on_a_line() -> None:
    assert format_json({"a": [1, "é"]}) == '{"a": [1, "é"]}'
    long = {"a": ["x" * 30, "y" * 30], "b": {}}
    assert format_json(long) == '{\n  "a": [\n    "' + "x" * 30 + '",\n    "' + "y" * 30 + '"\n  ],\n  "b": {}\n}'


def test_commands_are_quoted_for_a_shell() -> None:
    body = {"content": {"application/json": {"example": {"q": "l'été $HOME `id`"}}}}
    words = shlex.split(curl(Entry("/a b", ["post"], {"requestBody": body}), "http://h").replace("\\\n", " "))
    assert words == ["curl", "http://h/a b", "-H", "Content-Type: application/json", "-d", '{"q": "l\'été $HOME `id`"}']
    picture = {"content": {"image/png": {}}}
    assert curl(Entry("/p", ["post"], {"requestBody": picture}), "http://h").endswith("--data-binary @picture.png")
