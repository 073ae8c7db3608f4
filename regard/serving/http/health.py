"""Whether the server is alive and whether it is ready: for balancers, Kubernetes and other supervisors.

A server that is not alive should be restarted, one that is not ready should get no requests. They differ while the
server stops, and while workers are replaced: neither is a reason to kill it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse

from regard.serving.http.routes.openapi import errors, obj, response

if TYPE_CHECKING:
    from regard.serving.workers.worker_pool import WorkerPool

HEALTH_PATHS = frozenset({"/health", "/health/live", "/health/ready"})
"""Public, never rate-limited, and answered until the process ends."""


def readiness(app: FastAPI, pool: WorkerPool) -> str:
    """`ok`, or why the server should get no requests."""
    if app.state.draining:
        return "stopping"
    if pool.ready:
        return "ok"
    return "stalled" if pool.stalled else "starting"


def reported(status: str) -> JSONResponse:
    return JSONResponse({"status": status}, 200 if status == "ok" else 503)


def described(example: str = "ok") -> dict[int | str, Any]:
    """The responses of a health check in the OpenAPI description."""
    return {200: response("Yes.", obj({"status": {"type": "string"}}, ("status",)), {"status": example}), **errors()}


def router(pool: WorkerPool) -> APIRouter:
    routes = APIRouter(tags=["About the server"])

    @routes.get("/health/live", summary="Is the process alive?", responses=described())
    async def live() -> JSONResponse:
        """`ok` while the process responds: restart it only if it does not. It replaces lost workers by itself."""
        return reported("ok")

    @routes.get("/health/ready", summary="Should it get requests?", responses=described())
    async def ready(request: Request) -> JSONResponse:
        """`ok`, or with status 503 `starting` (no worker is running), `stalled` (workers are running, but none
        responds) or `stopping` (since the signal to stop, while requests are still answered; `--drain`)."""
        return reported(readiness(request.app, pool))

    return routes
