"""The HTTP side as one application: the doors, and behind them the routes of every contract."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from regard.serving.catalogue import Catalogue
from regard.serving.http.access import AccessMiddleware
from regard.serving.http.client_address import ClientAddresses
from regard.serving.http.cors import CorsPolicy
from regard.serving.http.error_responses import ErrorMiddleware
from regard.serving.http.metrics import Metrics
from regard.serving.http.metrics import router as metrics_router
from regard.serving.http.request_body import BodyLimits
from regard.serving.http.response_headers import Headers
from regard.serving.http.routes import deepl, docs, libretranslate, tasks
from regard.serving.log import Watched, log
from regard.serving.settings import Settings
from regard.serving.text.translator import TextTranslator

if TYPE_CHECKING:
    from regard.serving.workers.worker_pool import WorkerPool


def make_app(settings: Settings, catalogue: Catalogue, pool: WorkerPool, logged: bool = True) -> FastAPI:
    """`app.state.draining` may be set to True: then only /health is answered, all else refused."""
    app = app_with_middleware(settings, catalogue, pool, _routers(settings, catalogue, pool), logged)
    app.openapi()  # made now and kept: it takes too long for a request
    return app


def _routers(settings: Settings, catalogue: Catalogue, pool: WorkerPool) -> list[APIRouter]:
    translating = TextTranslator(settings, catalogue, pool)
    return [
        libretranslate.router(settings, catalogue, translating),
        deepl.router(settings, catalogue, translating),
        tasks.router(settings, catalogue, pool),
        docs.router(),
    ]


def app_with_middleware(
    settings: Settings,
    catalogue: Catalogue,
    pool: WorkerPool,
    routers: Iterable[APIRouter] = (),
    logged: bool = True,
    sizes: BodyLimits | None = None,
) -> FastAPI:
    origins, addresses = CorsPolicy(settings.allow_origins), ClientAddresses(settings.trusted_proxies)
    metrics = Metrics(pool) if settings.metrics else None
    listeners = [*([log] if logged else []), *([metrics.saw] if metrics else [])]
    app = FastAPI(
        title="Regard",
        version="1",
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        middleware=[
            Middleware(Watched, listeners),
            Middleware(Headers),
            Middleware(ErrorMiddleware, list(catalogue.models.values())),
            Middleware(AccessMiddleware, settings, origins, addresses, sizes or BodyLimits(settings)),
        ],
        exception_handlers={HTTPException: _pass_on, RequestValidationError: _pass_on},
    )
    app.state.draining = False
    app.state.parsing = asyncio.Lock()
    for router in (*routers, metrics_router(settings, metrics)):
        app.router.routes.extend(router.routes)  # one flat list: what is routed can be seen and checked
    return app


async def _pass_on(request: Request, error: Exception) -> NoReturn:
    """All errors are answered in one place, refusals.py."""
    raise error
