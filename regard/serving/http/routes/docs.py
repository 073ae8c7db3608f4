"""The documentation page, rendered from the OpenAPI description, and the description itself.

The page loads nothing external and has one script, of the "Try it" box. All text is escaped.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from regard.languages import public
from regard.serving.http.response_headers import CSP_PAGE
from regard.serving.http.routes.example_answers import PATHS, ExampleAnswers
from regard.serving.http.routes.openapi import Sample

STYLE, SCRIPT = (Path(__file__).with_name(name) for name in ("docs.css", "docs.js"))
POLICY = f"{CSP_PAGE}; script-src 'self'; connect-src 'self'"
"""The page's own script, which may ask this server."""
METHODS = ("get", "post", "put", "patch", "delete")
WIDTH = 54
"""Characters of JSON that fit on a line of the page's narrow columns."""
ABOUT = """A server for trained models. It implements the APIs of LibreTranslate and DeepL, so their clients work
unchanged; other tasks, scores, alignment and attention are under `/api`."""
EXAMPLE_FILES = {"image/": "picture.png", "audio/": "sound.wav"}
Tree = dict[str, Any]


def router(translation: Sample | None = None, answering: bool = True, at_root: bool = True) -> APIRouter:
    """`translation` is the sentence that the "Try it" box begins with; None: this server does not translate. Unless
    `answering`, the page computes nothing, as anybody may open it: where a server asks for keys.
    `at_root`: it is at / as well."""
    routes = APIRouter(tags=["About the server"])
    style, script = STYLE.read_bytes(), SCRIPT.read_bytes()
    answers = ExampleAnswers()

    async def docs(request: Request) -> HTMLResponse:
        server = str(request.base_url).rstrip("/")
        found = page(request.app.openapi(), server, await answers.of(request.app) if answering else {}, translation)
        return HTMLResponse(found, headers={"Content-Security-Policy": POLICY})

    for path in ("/", "/docs") if at_root else ("/docs",):
        routes.add_api_route(path, docs, include_in_schema=False)

    @routes.get("/docs.css", include_in_schema=False)
    async def stylesheet() -> Response:
        return Response(style, media_type="text/css")

    @routes.get("/docs.js", include_in_schema=False)
    async def script_file() -> Response:
        return Response(script, media_type="text/javascript")

    @routes.get("/openapi.json", include_in_schema=False)
    @routes.get("/spec", summary="OpenAPI description", responses={200: {"description": "OpenAPI 3.1"}})
    async def spec(request: Request) -> JSONResponse:
        """The OpenAPI description of this server; also at `/openapi.json`."""
        return JSONResponse(request.app.openapi())

    return routes


@dataclass
class Entry:
    """A path and its methods that share one operation."""

    path: str
    methods: list[str]
    operation: Tree

    @property
    def anchor(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", f"{self.methods[0]}{self.path}".lower()).strip("-")


def page(tree: Tree, server: str, answers: Mapping[str, Any] | None = None, translation: Sample | None = None) -> str:
    """The page; `server` is the address in its examples, and `answers` what it answered to those of some paths."""
    title = escape(tree["info"]["title"])
    answers = answers or {}
    box, script = "", ""
    if translation:
        box, script = _try_it(translation, answers), '<script type="module" src="docs.js"></script>'
    groups = _groups(tree)
    contents = "".join(
        f"<h2>{escape(group)}</h2><ul>{''.join(_content(entry) for entry in entries)}</ul>"
        for group, entries in groups.items()
    )
    sections = "".join(
        f'<h2 class="group">{escape(group)}</h2>{"".join(_section(tree, e, server, answers) for e in entries)}'
        for group, entries in groups.items()
    )
    about = _paragraphs(tree["info"].get("description") or ABOUT)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title>'
        '<link rel="icon" href="data:,"><link rel="stylesheet" href="docs.css">'
        f"{script}</head><body>"
        f'<header><h1>{title} <span>server</span></h1>{about}<p><a href="spec">OpenAPI, for programs</a></p></header>'
        f"{box}"
        f'<div class="columns"><nav aria-label="Routes">{contents}</nav><main>{sections}</main></div></body></html>'
    )


def _try_it(translation: Sample, answers: Mapping[str, Any]) -> str:
    """A box that translates a text with this server; until somebody does, it shows the answer to the example."""
    answer = answers.get("/translate")
    first = escape(format_json(answer)) if answer else ""
    chosen = {"source": public(translation.source), "target": public(translation.target)}
    menus = "".join(
        f'<label>{name} <select id="try-{one}" data-first="{escape(chosen[one])}"></select></label>'
        for one, name in (("source", "From"), ("target", "to"))
    )
    return (
        '<section class="try" id="try-it" aria-labelledby="try-title"><div class="description">'
        '<h2 id="try-title">Try it</h2><label class="text">Text'
        f'<textarea id="try-text" rows="3" dir="auto" maxlength="2000">{escape(translation.text)}</textarea></label>'
        f'<p class="choices">{menus}<label hidden>API key '
        '<input id="try-key" type="password" autocomplete="off"></label>'
        '<button type="button" id="try-send" disabled>Translate</button></p></div>'
        '<div class="example"><h3>Request</h3><pre><code id="try-request"></code></pre>'
        f'<h3>Response <small id="try-status" role="status"></small></h3>'
        f'<pre><code id="try-answer" aria-live="polite">{first}</code></pre></div></section>'
    )


def _groups(tree: Tree) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for path, operations in tree.get("paths", {}).items():
        for method in (method for method in METHODS if method in operations):
            operation = operations[method]
            entries = found.setdefault((operation.get("tags") or ["Others"])[0], [])
            same = (e for e in entries if e.path == path and e.operation.get("summary") == operation.get("summary"))
            if entry := next(same, None):
                entry.methods.append(method)
            else:
                entries.append(Entry(path, [method], operation))
    return found


def _content(entry: Entry) -> str:
    return f'<li><a href="#{entry.anchor}">{_badges(entry)}{escape(entry.path)}</a></li>'


def _badges(entry: Entry) -> str:
    return "".join(f'<b class="{method}">{method.upper()}</b> ' for method in entry.methods)


def _section(tree: Tree, entry: Entry, server: str, answers: Mapping[str, Any]) -> str:
    operation = entry.operation
    rows = "".join(_row(tree, *field) for field in _fields(tree, operation))
    fields = f'<h4>Fields</h4><dl class="fields">{rows}</dl>' if rows else ""
    return (
        f'<section id="{entry.anchor}"><h3><a href="#{entry.anchor}">{_badges(entry)}<code>{escape(entry.path)}</code>'
        f'</a></h3><div class="description"><p class="summary">{escape(operation.get("summary", ""))}</p>'
        f"{_paragraphs(operation.get('description', ''))}{fields}</div>"
        f'<div class="example"><h4>Example</h4><pre><code>{escape(curl(entry, server))}</code></pre>'
        f"{_responses(operation, answers.get(entry.path), entry.path in PATHS)}</div></section>"
    )


def _fields(tree: Tree, operation: Tree) -> Iterator[tuple[str, Tree, bool]]:
    """Name, schema and whether it is required: query parameters, then fields of the body."""
    for parameter in operation.get("parameters", []):
        described = {"description": parameter.get("description", ""), **_resolved(tree, parameter.get("schema", {}))}
        yield parameter["name"], described, parameter.get("required", False)
    _, body = _body(operation)
    schema = _resolved(tree, body.get("schema", {}))
    for name, field in schema.get("properties", {}).items():
        yield name, _resolved(tree, field), name in schema.get("required", [])


def _row(tree: Tree, name: str, schema: Tree, required: bool) -> str:
    notes = [_type(tree, schema)] if _type(tree, schema) else []
    if schema.get("default") not in (None, ""):
        notes.append(f"default {json.dumps(schema['default'], ensure_ascii=False)}")
    if required:
        notes.append("required")
    return (
        f"<div><dt><code>{escape(name)}</code> <small>{escape(', '.join(notes))}</small></dt>"
        f"<dd>{_prose(schema.get('description', ''))}</dd></div>"
    )


def _type(tree: Tree, schema: Tree) -> str:
    schema = _resolved(tree, schema)
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_type(tree, choice) for choice in choices))
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    kind = schema.get("type", "")
    if kind == "array":
        return f"array of {_type(tree, schema.get('items', {}))}s"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _resolved(tree: Tree, schema: Tree) -> Tree:
    """The schema with its reference resolved."""
    reference = schema.get("$ref", "")
    found: Any = tree
    for part in reference.removeprefix("#/").split("/") if reference else []:
        found = found[part]
    return {**found, **schema} if reference else schema


def _body(operation: Tree) -> tuple[str, Tree]:
    """The media type and schema of the body, preferably JSON."""
    content = operation.get("requestBody", {}).get("content", {})
    kind = "application/json" if "application/json" in content else next(iter(content), "")
    return kind, content.get(kind, {})


def curl(entry: Entry, server: str) -> str:
    """A command to paste into a shell."""
    kind, body = _body(entry.operation)
    method = "" if kind or entry.methods[0] == "get" else f"-X {entry.methods[0].upper()} "
    parts = [f"curl {method}{shlex.quote(server + entry.path)}"]
    if kind == "application/json":
        parts += [
            f"-H {shlex.quote(f'Content-Type: {kind}')}",
            f"-d {shlex.quote(format_json(body.get('example', {}), '  '))}",
        ]
    elif kind.startswith("multipart/"):
        parts += [f"-F {shlex.quote(f'{name}={value}')}" for name, value in body.get("example", {}).items()]
    elif kind:
        file = next((file for start, file in EXAMPLE_FILES.items() if kind.startswith(start)), "example")
        parts += [f"-H {shlex.quote(f'Content-Type: {kind}')}", f"--data-binary @{file}"]
    return " \\\n  ".join(parts)


def _responses(operation: Tree, answer: Any = None, asked: bool = False) -> str:
    """`answer` is what the server said to the example; where it is `asked`, no other one is shown."""
    success, errors = "", ""
    for status, response in operation.get("responses", {}).items():
        if str(status).startswith("2") and asked:
            shown = f"<pre><code>{escape(format_json(answer))}</code></pre>" if answer else "<p>Not asked yet.</p>"
            success += f"<h4>Response</h4>{shown}"
        elif str(status).startswith("2"):
            success += f"<h4>Response</h4>{_example(response)}"
        else:
            errors += (
                f"<div><dt><code>{escape(str(status))}</code></dt>"
                f"<dd>{_prose(response.get('description', ''))}{_example(response)}</dd></div>"
            )
    return success + (f'<details><summary>Errors</summary><dl class="errors">{errors}</dl></details>' if errors else "")


def _example(response: Tree) -> str:
    for body in response.get("content", {}).values():
        if "example" in body:
            return f"<pre><code>{escape(format_json(body['example']))}</code></pre>"
    return f"<p>{_prose(response.get('description', ''))}</p>" if response.get("description") else ""


def format_json(value: Any, indent: str = "") -> str:
    """Formatted JSON; values that fit on a line stay on one."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= WIDTH or not value or not isinstance(value, dict | list):
        return line
    deeper = f"{indent}  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(name, ensure_ascii=False)}: {format_json(part, deeper)}" for name, part in value.items()]
    else:
        parts = [format_json(part, deeper) for part in value]
    inside = ",\n".join(f"{deeper}{part}" for part in parts)
    return f"{{\n{inside}\n{indent}}}" if isinstance(value, dict) else f"[\n{inside}\n{indent}]"


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_prose(part)}</p>" for part in re.split(r"\n\s*\n", text.strip()) if part)


def _prose(text: str) -> str:
    """Escaped text, with `this` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
