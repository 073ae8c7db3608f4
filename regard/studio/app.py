"""The studio's routes: its page, the list of models, questions to them, training runs, and the package's source code.

Only files of the package are served, looked up in a listing: a name from a request is never joined to a path.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from regard.config import read_recipe
from regard.inspection.trace.base import plain
from regard.inspection.trace.model_map import map_of_folder
from regard.serving.catalogue import Catalogue
from regard.serving.http.app import app_with_middleware
from regard.serving.http.http_error import HttpError
from regard.serving.http.request_fields import fields_of
from regard.serving.http.response_headers import CSP_NOTHING
from regard.serving.http.routes.tasks import validated
from regard.serving.settings import Settings
from regard.studio.direction import with_direction
from regard.studio.models import StudioModels, describe
from regard.studio.questions import module_of, question_names
from regard.studio.run_routes import router as runs_router

if TYPE_CHECKING:
    from regard.serving.workers.worker_pool import WorkerPool

PACKAGE = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("page")
POLICY = f"{CSP_NOTHING}; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'"
"""Content security policy: the page's own scripts and styles, and images it makes; nothing inline or external."""
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def make_studio(models: StudioModels, runs: Path) -> Callable[[Settings, Catalogue, WorkerPool, bool], FastAPI]:
    """A function that makes the application, for `server.listen` to call once its workers have started."""

    def make(settings: Settings, catalogue: Catalogue, pool: WorkerPool, logged: bool) -> FastAPI:
        return app_with_middleware(settings, catalogue, pool, [router(models, pool, runs)], logged)

    return make


def router(studio_models: StudioModels, pool: WorkerPool, runs: Path) -> APIRouter:
    routes = APIRouter()
    maps: dict[str, Any] = {}
    files = page_files()  # listed once: the page asks for sixty of them when it opens
    descriptions = [describe(model) for model in studio_models.catalogue.models.values()]

    @routes.get("/")
    @routes.get("/studio")
    async def home(request: Request) -> RedirectResponse:
        return RedirectResponse(f"{request.scope.get('root_path', '')}/studio/")

    @routes.get("/health")
    async def health() -> JSONResponse:
        """Healthy while models load: the page is served already. Only workers that hang make the studio unusable."""
        return JSONResponse({"status": "stalled"}, 503) if pool.stalled else JSONResponse({"status": "ok"})

    @routes.get("/studio/models")
    async def models() -> JSONResponse:
        failed = {**studio_models.left_out, **studio_models.without_folders(pool.failed)}
        return JSONResponse(
            {
                "ready": pool.ready,
                "loading": pool.loading,
                "models": [model for model in descriptions if model["name"] not in failed],
                "failed": [{"name": name, "why": why} for name, why in failed.items()],
                "views": [Path(name).stem for name in files if name.startswith("views/") and name.endswith(".js")],
                "styles": [name for name in files if name.endswith(".css") and name != "studio.css"],
            }
        )

    @routes.get("/studio/map/{name}")
    async def model_map(name: str) -> JSONResponse:
        """The blocks of a model, from its recipe and the header of its weight file: before it is loaded."""
        if name not in studio_models.catalogue.models:
            raise HttpError(404, "The studio has no model of this name")
        if name not in maps:
            model = studio_models.catalogue.models[name]
            recipe = await run_in_threadpool(read_recipe, model.folder)
            maps[name] = plain(await run_in_threadpool(map_of_folder, model.folder, recipe.model, recipe.task))
        return JSONResponse(maps[name])

    @routes.post("/studio/ask/{question}")
    async def ask(request: Request, question: str) -> JSONResponse:
        if question not in question_names():
            raise HttpError(404, "The studio has no such question")
        fields = validated(module_of(question).Request, await fields_of(request))
        name = str(fields.model)
        if name not in studio_models.catalogue.models or name in pool.failed:
            raise HttpError(404, "The studio has no model of this name")
        model = studio_models.catalogue.models[name]
        wanted, languages = with_direction(model, fields.model_dump(exclude_none=True))
        answer = await pool.run_task(name, question, wanted, family="questions")
        try:
            return JSONResponse({**answer, "languages": languages} if languages else answer)
        except ValueError:  # JSON has no infinity
            raise HttpError(
                400, "the model's output is not finite: the input is too far from its training data"
            ) from None

    @routes.get("/studio/code/{name:path}")
    async def code(name: str) -> HTMLResponse:
        if name not in (known := sources()):
            raise HttpError(404, "Not found")
        return HTMLResponse(code_page(name, known[name].read_text(encoding="utf-8")))

    routes.include_router(runs_router(runs))

    @routes.get("/studio/{name:path}")
    async def page(name: str) -> Response:
        if (name := name or "index.html") not in files:
            raise HttpError(404, "Not found")
        content, kind = files[name].read_bytes(), TYPES[files[name].suffix]
        return Response(content, media_type=kind, headers={"Content-Security-Policy": POLICY})

    return routes


def page_files() -> dict[str, Path]:
    """The files of the page by their names in the browser."""
    found = sorted(path for path in PAGE.rglob("*") if path.is_file() and path.suffix in TYPES)
    return {path.relative_to(PAGE).as_posix(): path for path in found}


def sources() -> dict[str, Path]:
    """The source files of the package by name: `regard/layers/attend.py`."""
    return {path.relative_to(PACKAGE.parent).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


def code_page(name: str, text: str) -> str:
    """A source file with numbered lines: `#L12` links to a line, `#attend` to the definition of a function or class."""
    begins = {node.lineno: path for path, node in _defined(ast.parse(text), "")}
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        named = f' data-name="{escape(begins[number])}"' if number in begins else ""
        anchor = f'<a id="{escape(begins[number])}"></a>' if number in begins else ""
        lines.append(
            f'<span class="line" id="L{number}"{named}>{anchor}<a class="number" href="#L{number}">{number}</a>'
            f"<code>{escape(line) or ' '}</code></span>"
        )
    up = "../" * (name.count("/") + 1)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f'<title>{escape(name)}</title><link rel="stylesheet" href="{up}studio.css"></head><body class="source">'
        f'<main><h1>{escape(name)}</h1><div class="code" tabindex="0" role="region" aria-label="Code">'
        f"{''.join(lines)}</div></main></body></html>"
    )


def _defined(node: ast.AST, within: str) -> list[tuple[str, Any]]:
    """The functions and classes of a file by name: `Class.method`."""
    found: list[tuple[str, Any]] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            path = f"{within}{child.name}"
            found += [(path, child), *_defined(child, f"{path}.")]
    return found
