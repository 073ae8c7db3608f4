"""DeepL's glossary API (v2), as its official clients use it. Glossaries are in the state store, of each key its own."""

from __future__ import annotations

import asyncio
import csv
import io
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from regard.errors import UserError
from regard.glossary import Glossary
from regard.languages import from_deepl, internal, to_deepl
from regard.serving.catalogue import Catalogue
from regard.serving.http.http_error import HttpError
from regard.serving.http.request_fields import fields_of
from regard.serving.http.routes.openapi import array, choice, errors, obj, request_body, response, sample, text
from regard.serving.state import StateStore, StateUnavailable, StoredGlossary
from regard.serving.text.translator import TranslationRequest

MOST_GLOSSARIES = 100
"""Glossaries of one key."""
TSV = "text/tab-separated-values"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Result = TypeVar("Result")


def router(catalogue: Catalogue) -> APIRouter:
    routes = APIRouter(prefix="/v2", tags=["DeepL"])
    docs = _OpenApi(catalogue)
    pairs = [
        {"source_lang": to_deepl(source).lower(), "target_lang": to_deepl(target).lower()}
        for source in catalogue.sources()
        for target in sorted(catalogue.all_targets())
        if source != target and len(catalogue.route(source, target) or ()) == 1
    ]

    @routes.get("/glossary-language-pairs", summary="Language pairs of glossaries", responses=docs.pairs)
    async def language_pairs() -> JSONResponse:
        """Those that one model translates directly."""
        return JSONResponse({"supported_languages": pairs})

    @routes.post(
        "/glossaries", summary="Create a glossary", status_code=201, openapi_extra=docs.body, responses=docs.created
    )
    async def create(request: Request) -> JSONResponse:
        """Entries are lines of TERM, TRANSLATION and, as an addition, `must` or `prefer`; each side may have several
        forms, separated by `|`."""
        made = await asyncio.to_thread(_read, await fields_of(request), catalogue)
        owner = request.state.owner
        if not await _ask(request, lambda store: store.add_glossary(owner, made, MOST_GLOSSARIES)):
            raise HttpError(456, f"Quota exceeded: a key has {MOST_GLOSSARIES} glossaries at most.")
        return JSONResponse(_tree(made), status_code=201)

    @routes.get("/glossaries", summary="List glossaries", responses=docs.listed)
    async def list_all(request: Request) -> JSONResponse:
        """Those of the API key."""
        owner = request.state.owner
        found = await _ask(request, lambda store: store.glossaries(owner))
        return JSONResponse({"glossaries": list(map(_tree, found))})

    @routes.get("/glossaries/{glossary_id}", summary="A glossary", responses=docs.one)
    async def one(request: Request, glossary_id: str) -> JSONResponse:
        """Its name, languages and size."""
        return JSONResponse(_tree(await _find(request, glossary_id)))

    @routes.get("/glossaries/{glossary_id}/entries", summary="The entries of a glossary", responses=docs.entries)
    async def entries(request: Request, glossary_id: str) -> Response:
        """As lines of tab-separated values."""
        return Response((await _find(request, glossary_id)).text, media_type=TSV)

    @routes.delete("/glossaries/{glossary_id}", summary="Delete a glossary", status_code=204, responses=docs.deleted)
    async def delete(request: Request, glossary_id: str) -> Response:
        """At once, and for all servers that share the store."""
        owner = request.state.owner
        known = _ID.fullmatch(glossary_id)
        if not known or not await _ask(request, lambda store: store.remove_glossary(owner, glossary_id)):
            raise _not_found()
        return Response(status_code=204)

    return routes


async def with_glossary(request: Request, id: Any, translation: TranslationRequest) -> TranslationRequest:
    """The request with one of its key's glossaries."""
    stored = await _find(request, id)
    if translation.source == "auto":
        raise HttpError(400, "Value for 'source_lang' required when 'glossary_id' is specified.")
    if (stored.source, stored.target) != (translation.source, translation.target):
        raise HttpError(400, "The languages of the glossary are not those of the request.")
    glossary = await asyncio.to_thread(Glossary.parse, stored.text.splitlines())
    return replace(translation, glossary=glossary)


async def _find(request: Request, id: Any) -> StoredGlossary:
    owner = request.state.owner
    known = isinstance(id, str) and _ID.fullmatch(id)
    stored = await _ask(request, lambda store: store.glossary(owner, id)) if known else None
    if stored is None:
        raise _not_found()
    return stored


async def _ask(request: Request, question: Callable[[StateStore], Result]) -> Result:
    shared = request.app.state.shared
    if shared is None:
        raise HttpError(403, "Glossaries are off on this server; it keeps them if it is started with --state FILE.")
    try:
        found: Result = await shared.ask(lambda: question(shared.store))
    except StateUnavailable:
        raise HttpError(503, "Glossaries cannot be read at present", {"Retry-After": "2"}) from None
    return found


def _not_found() -> HttpError:
    return HttpError(404, "Glossary not found")


def _read(given: dict[str, Any], catalogue: Catalogue) -> StoredGlossary:
    """The glossary of a request to create one."""
    values = {}
    for field in ("name", "source_lang", "target_lang", "entries"):
        value = given.get(field)
        if not isinstance(value, str) or not value.strip():
            raise HttpError(400, f"Parameter '{field}' not specified.")
        values[field] = value
    if len(values["name"]) > 1024:
        raise HttpError(400, "Value for 'name' not supported: it has more than 1024 characters.")
    source, target = (_language(values[field], field, catalogue) for field in ("source_lang", "target_lang"))
    if len(catalogue.route(source, target) or ()) != 1:
        raise HttpError(400, "Unsupported glossary source and target language pair.")
    kind = given.get("entries_format", "tsv")
    if kind not in ("tsv", "csv"):
        raise HttpError(400, "Value for 'entries_format' not supported.")
    try:
        glossary = Glossary.of(list(_rows(values["entries"], kind)), "entries")
    except (UserError, csv.Error) as error:
        raise HttpError(400, f"Invalid glossary entries provided: {error}") from None
    if not glossary.terms:
        raise HttpError(400, "Invalid glossary entries provided: there are none.")
    lines = ("\t".join(row if row[2] != "must" else row[:2]) for row in glossary.rows())
    return StoredGlossary(
        str(uuid.uuid4()), values["name"], source, target, time.time(), len(glossary.terms), "\n".join(lines)
    )


def _rows(entries: str, kind: str) -> list[list[str]]:
    """CSV may name the languages in columns 3 and 4, as DeepL's may."""
    if kind == "csv":
        return [row[:2] if len(row) == 4 else row for row in csv.reader(io.StringIO(entries)) if row]
    return [line.split("\t") for line in entries.splitlines() if line.strip()]


def _language(code: str, field: str, catalogue: Catalogue) -> str:
    known = catalogue.languages()
    found = next((one for one in (internal(code), from_deepl(code)) if one in known), None)
    if found is None:
        raise HttpError(400, f"Value for '{field}' not supported.")
    return found


def _tree(stored: StoredGlossary) -> dict[str, Any]:
    return {
        "glossary_id": stored.id,
        "name": stored.name,
        "ready": True,
        "source_lang": to_deepl(stored.source).lower(),
        "target_lang": to_deepl(stored.target).lower(),
        "creation_time": datetime.fromtimestamp(stored.added, UTC).isoformat(),
        "entry_count": stored.terms,
    }


class _OpenApi:
    """The OpenAPI description of each route."""

    def __init__(self, catalogue: Catalogue):
        example = sample(catalogue)
        string = {"type": "string"}
        source, target = to_deepl(example.source).lower(), to_deepl(example.target).lower()
        shown = {
            "glossary_id": "def3a26b-3e84-45b3-84ae-0c0aaf3525f7",
            "name": "Animals",
            "ready": True,
            "source_lang": source,
            "target_lang": target,
            "creation_time": "2026-01-01T12:00:00+00:00",
            "entry_count": 1,
        }
        fields = dict.fromkeys(shown, string) | {"ready": {"type": "boolean"}, "entry_count": {"type": "integer"}}
        made = obj(fields, tuple(fields))
        refused = errors(403, 429, 503, key="message")
        missing = errors(404, key="message", examples={404: "Glossary not found"})
        self.body = request_body(
            {
                "name": text("Its name."),
                "source_lang": text("The language of the terms."),
                "target_lang": text("The language of the translations."),
                "entries": text("The entries."),
                "entries_format": choice("How they are written.", ["tsv", "csv"]),
            },
            ("name", "source_lang", "target_lang", "entries"),
            {"name": "Animals", "source_lang": source, "target_lang": target, "entries": "chien\thound"},
        )
        wrong = errors(400, 413, 456, key="message", examples={400: "Parameter 'name' not specified."})
        self.created = {201: response("Created.", made, shown), **wrong, **refused}
        self.listed = {
            200: response("By time.", obj({"glossaries": array(made)}), {"glossaries": [shown]}),
            **refused,
        }
        self.one = {200: response("The glossary.", made, shown), **missing, **refused}
        lines = {TSV: {"schema": string, "example": "chien\thound"}}
        self.entries = {200: {"description": "The entries.", "content": lines}, **missing, **refused}
        self.deleted = {204: {"description": "Deleted."}, **missing, **refused}
        pair = obj({"source_lang": string, "target_lang": string})
        pairs = {"supported_languages": [{"source_lang": source, "target_lang": target}]}
        self.pairs = {
            200: response("The pairs.", obj({"supported_languages": array(pair)}), pairs),
            **errors(403, 429, key="message"),
        }
