"""Training runs, to be watched while they go on: the list of them, and what one has written since it was last asked."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from regard.serving.http.http_error import HttpError
from regard.studio.runs import Runs


def router(folder: Path) -> APIRouter:
    """Functions that wait for a disk are no coroutines, so that nobody else waits with them."""
    routes = APIRouter()
    runs = Runs(folder)

    @routes.get("/studio/runs")
    def all_runs() -> JSONResponse:
        told, older = runs.newest()
        return JSONResponse({"runs": told} | ({"older": older} if older else {}))

    @routes.get("/studio/runs/{name:path}")
    def one_run(
        name: str,
        since: Annotated[int, Query(ge=0, lt=2**53)] = 0,
        mark: Annotated[str, Query(max_length=40)] = "",
        every: Annotated[int, Query(ge=1, lt=2**20)] = 1,
    ) -> JSONResponse:
        found = runs.read(name, since, mark, every)
        if found is None:
            raise HttpError(404, "There is no such run")
        run, part = found
        return JSONResponse({"run": run, **asdict(part)})

    return routes
