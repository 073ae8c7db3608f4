"""/api/continuations: other ways for a translation to go on, for editors in which one clicks on a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from regard.serving.catalogue import Catalogue
from regard.serving.http.http_error import HttpError
from regard.serving.http.request_fields import fields_of
from regard.serving.http.routes.tasks import check_limits, described_body, described_responses, find_route, validated
from regard.serving.settings import Settings
from regard.serving.workers.interactive import continuations

if TYPE_CHECKING:
    from regard.serving.workers.worker_pool import WorkerPool


def router(settings: Settings, catalogue: Catalogue, pool: WorkerPool) -> APIRouter:
    routes = APIRouter(prefix="/api", tags=["All tasks"])

    @routes.post(
        "/continuations",
        summary="Other ways for a translation to go on",
        responses=described_responses(continuations),
        openapi_extra=described_body(continuations),
    )
    async def ask(request: Request) -> JSONResponse:
        """Translations of one sentence that begin with `prefix`, each with another word after it."""
        fields = validated(continuations.Request, await fields_of(request))
        check_limits(settings, fields)
        assert isinstance(fields, continuations.Request)
        route = find_route(catalogue, fields)
        if len(route) > 1:
            raise HttpError(400, "continuations: needs a model that translates directly between the languages")
        step = route[0]
        wanted = {"text": fields.text, "prefix": fields.prefix, "n_best": fields.n_best}
        languages = {"source": step.source or None, "target": step.target or None} if step.model.multilingual else {}
        answer = await pool.run_task(step.model.name, "continuations", {**wanted, **languages}, family="interactive")
        return JSONResponse({"model": step.model.name, **answer})

    return routes
