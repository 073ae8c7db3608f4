"""Routes for training runs: the list of them, and what a run has logged since the last request."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from regard.serving.http.http_error import HttpError
from regard.studio.runs import Runs


def router(folder: Path) -> APIRouter:
    """These read files, so they are plain functions, which FastAPI runs in threads."""
    routes = APIRouter()
    runs = Runs(folder)

    @routes.get("/studio/runs")
    def all_runs() -> JSONResponse:
        newest, older = runs.newest()
        told = {"name": folder.name or str(folder), "exists": folder.is_dir()}  # no path: the page may be on a network
        return JSONResponse({"runs": newest, "folder": told} | ({"older": older} if older else {}))

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
