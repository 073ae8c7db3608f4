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
from regard.serving.http.access import Doors
from regard.serving.http.body import Sizes
from regard.serving.http.client_address import Addresses
from regard.serving.http.error_responses import Refusals
from regard.serving.http.headers import Headers
from regard.serving.http.metrics import Metrics
from regard.serving.http.metrics import router as metrics_router
from regard.serving.http.origins import Origins
from regard.serving.http.routes import deepl, libretranslate, pages, tasks
from regard.serving.log import Watched, log
from regard.serving.settings import Settings
from regard.serving.text.translation import Translating

if TYPE_CHECKING:
    from regard.serving.workers.worker_pool import Engine


def make_app(settings: Settings, catalogue: Catalogue, engine: Engine, logged: bool = True) -> FastAPI:
    """`app.state.draining` may be set to True: then only /health is answered, all else refused."""
    app = behind_doors(settings, catalogue, engine, _routers(settings, catalogue, engine), logged)
    app.openapi()  # made now and kept: it takes too long for a request
    return app


def _routers(settings: Settings, catalogue: Catalogue, engine: Engine) -> list[APIRouter]:
    translating = Translating(settings, catalogue, engine)
    return [
        libretranslate.router(settings, catalogue, translating),
        deepl.router(settings, catalogue, translating),
        tasks.router(settings, catalogue, engine),
        pages.router(),
    ]


def behind_doors(
    settings: Settings,
    catalogue: Catalogue,
    engine: Engine,
    routers: Iterable[APIRouter] = (),
    logged: bool = True,
    sizes: Sizes | None = None,
) -> FastAPI:
    origins, addresses = Origins(settings.allow_origins), Addresses(settings.trusted_proxies)
    metrics = Metrics(engine) if settings.metrics else None
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
            Middleware(Refusals, list(catalogue.models.values())),
            Middleware(Doors, settings, origins, addresses, sizes or Sizes(settings)),
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
