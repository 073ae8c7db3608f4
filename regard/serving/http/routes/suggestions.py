"""LibreTranslate's /suggest: corrections are kept in a file (regard/suggestions.py) if the server was given one."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from regard.languages import internal, public
from regard.serving.catalogue import Catalogue
from regard.serving.http.http_error import HttpError
from regard.serving.http.request_fields import fields_of
from regard.serving.http.routes.openapi import choice, errors, obj, request_body, response, sample, text
from regard.serving.settings import Settings
from regard.suggestions import MAX_CHARACTERS, Suggestions, SuggestionsFull

OFF = "Suggestions are disabled on this server."
FULL = "This server takes no more suggestions of yours; its operator can keep them elsewhere and begin anew."
FIELDS = ("q", "s", "source", "target")
"""In the order in which LibreTranslate checks them."""


def router(settings: Settings, catalogue: Catalogue) -> APIRouter:
    routes = APIRouter(tags=["LibreTranslate"])
    store = Suggestions(settings.suggestions) if settings.suggestions else None
    example = sample(catalogue)
    codes = [public(code) for code in catalogue.languages()]
    body = request_body(
        {
            "q": text("The text.", minLength=1, maxLength=MAX_CHARACTERS),
            "s": text("How it should be translated.", minLength=1, maxLength=MAX_CHARACTERS),
            "source": choice("The language of the text.", codes),
            "target": choice("The language of the suggestion.", codes),
            "api_key": text("The API key, if one is required."),
        },
        FIELDS,
        {
            "q": example.text,
            "s": example.translation,
            "source": public(example.source),
            "target": public(example.target),
        },
    )
    taken = response("Kept.", obj({"success": {"type": "boolean"}}, ("success",)), {"success": True})
    refused = errors(400, 403, 413, 429, 503, examples={403: OFF})

    @routes.post("/suggest", summary="Suggest a translation", openapi_extra=body, responses={200: taken, **refused})
    async def suggest(request: Request) -> JSONResponse:
        """Keeps a correction for the operator, who may train a model on it; nothing is learnt at once. 403 unless the
        server was started with `--suggestions FILE`."""
        if store is None:
            raise HttpError(403, OFF)
        q, s, source, target = _read(await fields_of(request), catalogue)
        try:
            await asyncio.to_thread(store.add, request.state.owner, source, target, q, s)
        except SuggestionsFull:
            raise HttpError(403, FULL) from None
        except sqlite3.Error:  # the disk is full, or another process keeps the file locked
            raise HttpError(503, "Suggestions cannot be kept at present", {"Retry-After": "5"}) from None
        return JSONResponse({"success": True})

    return routes


def _read(given: dict[str, Any], catalogue: Catalogue) -> list[str]:
    values = []
    for field in FIELDS:
        value = given.get(field)
        if value in (None, ""):
            raise HttpError(400, f"Invalid request: missing {field} parameter")
        if not isinstance(value, str):
            raise HttpError(400, f"Invalid request: {field} parameter is not a string")
        if len(value) > MAX_CHARACTERS:
            raise HttpError(400, f"Invalid request: {field} ({len(value)}) exceeds text limit ({MAX_CHARACTERS})")
        values.append(value)
    *texts, source, target = values
    codes = [internal(source), internal(target)]
    for code in codes:
        if code not in catalogue.languages():
            raise HttpError(400, f"{public(code)} is not supported")
    return [*texts, *codes]
