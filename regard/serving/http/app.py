"""The FastAPI app: middleware, and the routers of every API."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from regard.serving.catalogue import Catalogue
from regard.serving.http.access import AccessMiddleware, prefix_of
from regard.serving.http.client_address import ClientAddresses
from regard.serving.http.cors import CorsPolicy
from regard.serving.http.documents import Documents
from regard.serving.http.error_responses import ErrorMiddleware
from regard.serving.http.health import router as health_router
from regard.serving.http.metrics import Metrics
from regard.serving.http.metrics import router as metrics_router
from regard.serving.http.request_body import BodyLimits
from regard.serving.http.request_log import RequestLogMiddleware, log_request
from regard.serving.http.response_headers import ResponseHeadersMiddleware
from regard.serving.http.routes import continuations, deepl, docs, glossaries, libretranslate, page, suggestions, tasks
from regard.serving.http.routes.openapi import sample
from regard.serving.http.shared_state import SharedState
from regard.serving.http.telemetry import Telemetry, TraceMiddleware
from regard.serving.settings import Settings
from regard.serving.text.translator import TextTranslator

if TYPE_CHECKING:
    from regard.serving.workers.worker_pool import WorkerPool


def make_app(settings: Settings, catalogue: Catalogue, pool: WorkerPool, log_requests: bool = True) -> FastAPI:
    """The app of `regard serve`. While `app.state.draining` is True it is not ready, and connections are closed after
    their response; while `app.state.refusing` is True, everything but health checks is refused."""
    app = app_with_middleware(settings, catalogue, pool, _routers(settings, catalogue, pool), log_requests)
    app.openapi()  # built now and cached: it takes too long for a request
    return app


def _routers(settings: Settings, catalogue: Catalogue, pool: WorkerPool) -> list[APIRouter]:
    translator = TextTranslator(settings, catalogue, pool)
    documents = Documents(settings, translator)
    example = sample(catalogue) if catalogue.of_task("translate") else None
    shows_page = settings.web_page and example is not None
    return [
        *([page.router()] if shows_page else []),
        libretranslate.router(settings, catalogue, translator, documents),
        suggestions.router(settings, catalogue),
        deepl.router(settings, catalogue, translator, documents),
        glossaries.router(catalogue),
        tasks.router(settings, catalogue, pool),
        continuations.router(settings, catalogue, pool),
        health_router(pool),
        docs.router(example, answering=not settings.api_keys, at_root=not shows_page),
    ]


def app_with_middleware(
    settings: Settings,
    catalogue: Catalogue,
    pool: WorkerPool,
    routers: Iterable[APIRouter] = (),
    log_requests: bool = True,
    body_limits: BodyLimits | None = None,
) -> FastAPI:
    """An app with these routers behind the middleware. `regard studio` uses it with its own routers."""
    cors, addresses = CorsPolicy(settings.allow_origins), ClientAddresses(settings.trusted_proxies)
    shared = SharedState(settings.state) if settings.state else None
    metrics = Metrics(pool, shared) if settings.metrics else None
    telemetry = Telemetry(settings.telemetry) if settings.telemetry else None
    listeners = [*([log_request] if log_requests else []), *([metrics.observe] if metrics else [])]
    app = FastAPI(
        title="Regard",
        version="1",
        docs_url=None,  # FastAPI's own pages load external scripts
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        middleware=[
            *([Middleware(TraceMiddleware, telemetry, prefix_of(settings))] if telemetry else []),
            Middleware(RequestLogMiddleware, listeners),
            Middleware(ResponseHeadersMiddleware),
            Middleware(ErrorMiddleware, list(catalogue.models.values())),
            Middleware(AccessMiddleware, settings, cors, addresses, body_limits or BodyLimits(settings), shared),
        ],
        exception_handlers={HTTPException: _reraise, RequestValidationError: _reraise},
    )
    app.state.draining = app.state.refusing = False
    app.state.parsing = asyncio.Lock()
    app.state.shared, app.state.telemetry = shared, telemetry
    for router in (*routers, metrics_router(settings, metrics)):
        app.router.routes.extend(router.routes)  # a flat list, so that tests can check every route
    return app


async def _reraise(request: Request, error: Exception) -> NoReturn:
    """Leaves all errors to ErrorMiddleware."""
    raise error
