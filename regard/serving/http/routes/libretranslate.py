"""LibreTranslate's API, which most clients speak. Values of a wrong type get 400 instead of its 500."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from regard.confidence.words import rounded, words_tree
from regard.errors import UserError
from regard.glossary import Glossary
from regard.languages import internal, name, public
from regard.serving.catalogue import Catalogue
from regard.serving.http.api_keys import DOWNLOADS
from regard.serving.http.documents import FILE_FORMATS, Documents, file_response, finished
from regard.serving.http.health import described, readiness, reported
from regard.serving.http.http_error import HttpError
from regard.serving.http.request_fields import fields_of, upload_of
from regard.serving.http.routes.openapi import (
    Schema,
    array,
    choice,
    errors,
    file_description,
    obj,
    request_body,
    response,
    sample,
    text,
    upload_body,
)
from regard.serving.settings import Settings
from regard.serving.text.language_detection import detect, hints_of
from regard.serving.text.translator import TextTranslator, TranslatedTexts, TranslationRequest

FRONTEND_TIMEOUT = 500
"""Milliseconds that LibreTranslate's page waits after the last keystroke."""
EXAMPLES = 20
"""Languages in the example of the OpenAPI description."""
MAX_TERMS = 1000
"""Of the glossary of a request."""
MAX_ALTERNATIVES = 100
"""If no limit is set: they are hypotheses of one beam search, so there must be one."""


def router(settings: Settings, catalogue: Catalogue, translator: TextTranslator, documents: Documents) -> APIRouter:
    routes = APIRouter(tags=["LibreTranslate"])
    docs = _OpenApi(settings, catalogue)
    listed = JSONResponse(offered(catalogue)).body

    @routes.post(
        "/translate",
        summary="Translate a text, or several",
        openapi_extra=docs.translate_body,
        responses=docs.translate_responses,
    )
    async def translate(request: Request) -> JSONResponse:
        """Line breaks, emoji, numbers and URLs are preserved. Send several texts as an array in `q` to get arrays
        back. Fields may also be in the query string. With `auto`, sentences in another language than the rest are
        translated from that one; `detectedLanguage` is that of all together."""
        translation, batch = read(await fields_of(request), settings, request.state.owner)
        translation = replace(translation, hints=hints_of(request.headers.get("accept-language", "")))
        return JSONResponse(shaped(translation, await translator.translate(translation), batch))

    @routes.post(
        "/detect", summary="Detect the language", openapi_extra=docs.detect_body, responses=docs.detect_responses
    )
    async def detect_language(request: Request) -> JSONResponse:
        """The most probable languages, best first, with a confidence from 0 to 100. Languages of the header
        `Accept-Language` are likelier than others, which decides of a word or two."""
        q = (await fields_of(request)).get("q")
        if q in (None, ""):
            raise _missing("q")
        if not isinstance(q, str):
            raise HttpError(400, "Invalid request: q parameter is not a string")
        _check_size([q], settings.char_limit)
        hints = hints_of(request.headers.get("accept-language", ""))
        return JSONResponse([_detected(*found) for found in detect(q, hints=hints)])

    @routes.get("/languages", summary="List languages", responses=docs.languages)
    async def languages() -> Response:
        """Each language with its target languages, directly or through a third language."""
        return Response(listed, media_type="application/json")

    @routes.get("/health", summary="Health check", responses=described())
    async def health(request: Request) -> JSONResponse:
        """The same as `/health/ready`."""
        return reported(readiness(request.app, translator.pool))

    @routes.get("/frontend/settings", summary="Settings for front ends", responses=docs.settings)
    async def frontend_settings(request: Request) -> JSONResponse:
        """Limits and default languages, for front ends."""
        shared = request.app.state.shared
        keys = bool(settings.api_keys or (shared and shared.keys_required))
        return JSONResponse(frontend(settings, catalogue, keys))

    @routes.post(
        "/translate_file",
        summary="Translate a document",
        openapi_extra=docs.file_body,
        responses=docs.file_responses,
    )
    async def translate_file(request: Request) -> JSONResponse:
        """Office documents, pages, books, subtitles and more: `/frontend/settings` lists the formats. Layout and
        formatting are preserved; the text of a PDF is returned as a Word document. A table (.csv, .tsv) needs
        `columns`. The link in the response works for half an hour."""
        if not documents.enabled:
            raise HttpError(403, NO_FILES)
        given, upload = await fields_of(request), await upload_of(request)
        if upload is None:
            raise HttpError(400, "Invalid request: missing file parameter")
        source, target = _language(given, "source"), _language(given, "target")
        held = documents.start(upload, source, target, request.state.owner, columns=_columns(given))
        try:
            await finished(held)
            if held.error:
                raise HttpError(held.error_status, held.error)
            held.linked = True
        finally:
            if not held.linked:
                documents.drop(held)
        link = f"{request.scope['root_path']}{DOWNLOADS}/{held.id}.{quote(held.name)}"
        return JSONResponse({"translatedFileUrl": str(request.base_url.replace(path=link, query=""))})

    @routes.get(DOWNLOADS + "/{name}", summary="Download a translated document", responses=docs.download)
    async def download_file(name: str) -> Response:
        """The link that `/translate_file` returned. It needs no key."""
        held = documents.linked(name.partition(".")[0])
        return file_response(held, held.content)

    return routes


NO_FILES = "Files translation are disabled on this server."


# Requests.


def read(given: dict[str, Any], settings: Settings, owner: str) -> tuple[TranslationRequest, bool]:
    """The request, and whether `q` is an array. Checks in the same order as LibreTranslate."""
    q = given.get("q")
    if q in (None, "", []):
        raise _missing("q")
    texts = q if isinstance(q, list) else [q]
    if not all(isinstance(one, str) for one in texts):
        raise HttpError(400, "Invalid request: q parameter is neither a string nor an array of strings")
    source, target = _language(given, "source"), _language(given, "target")
    format = given.get("format")
    if format not in (None, "", "text", "html"):
        raise HttpError(400, f"{format} format is not supported")
    alternatives = _alternatives(given.get("alternatives", 0), settings)
    doubt = given.get("doubt") in (True, "true", "1")
    if texts is q:
        _check_count(len(texts), settings.batch_limit)
    _check_size(texts, settings.char_limit)
    html, sentences = format == "html", _flag(given, "sentences")
    if html and sentences:
        raise HttpError(400, "Invalid request: sentences are returned for text, not for html")
    glossary = _glossary(given.get("glossary"))
    request = TranslationRequest(
        texts, source, target, html, alternatives, owner, glossary, sentences=sentences, doubt=doubt
    )
    return request, texts is q


def _flag(given: dict[str, Any], field: str) -> bool:
    value = given.get(field, False)
    if value not in (True, False, "true", "false"):
        raise HttpError(400, f"Invalid request: {field} parameter is neither true nor false")
    return value in (True, "true")


def _glossary(rows: Any) -> Glossary | None:
    """Our addition to the API: the terms of a request, as in /api/translate. Forms cannot send lists."""
    if rows in (None, "", []):
        return None
    fits = isinstance(rows, list) and len(rows) <= MAX_TERMS
    if not fits or not all(
        isinstance(row, list) and 2 <= len(row) <= 3 and all(isinstance(one, str) and len(one) <= 2000 for one in row)
        for row in rows
    ):
        raise HttpError(400, f"Invalid request: glossary parameter is not a list of at most {MAX_TERMS} pairs of terms")
    try:
        return Glossary.of(rows, "glossary")
    except UserError as error:
        raise HttpError(400, str(error)) from None


def _columns(given: dict[str, Any]) -> list[str]:
    """Of a table, or keys of JSON: our addition to the contract."""
    columns = given.get("columns") or ""
    if not isinstance(columns, str):
        raise HttpError(400, "Invalid request: columns parameter is not a string")
    return [name for name in map(str.strip, columns.split(",")) if name]


def _language(given: dict[str, Any], field: str) -> str:
    code = given.get(field)
    if code in (None, ""):
        raise _missing(field)
    if not isinstance(code, str):
        raise HttpError(400, f"Invalid request: {field} parameter is not a string")
    return internal(code)


def _alternatives(value: Any, settings: Settings) -> int:
    """An integer, or its digits as in forms. A boolean is refused, although it is an int in Python."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,300}", value):
        value = int(value)
    if type(value) is not int:
        raise HttpError(400, "Invalid request: alternatives parameter is not a number")
    limit = _max_alternatives(settings)
    if limit < value:
        raise HttpError(400, f"Invalid request: alternatives parameter must be <= {limit}")
    return max(0, value)


def _max_alternatives(settings: Settings) -> int:
    return settings.alternatives_limit if settings.alternatives_limit >= 0 else MAX_ALTERNATIVES


def _missing(field: str) -> HttpError:
    return HttpError(400, f"Invalid request: missing {field} parameter")


def _check_count(size: int, limit: int) -> None:
    if 0 <= limit < size:
        raise HttpError(400, f"Invalid request: request ({size}) exceeds text limit ({limit})")


def _check_size(texts: list[str], limit: int) -> None:
    _check_count(sum(map(len, texts)), limit)


# Responses.


def shaped(request: TranslationRequest, found: TranslatedTexts, batch: bool) -> dict[str, Any]:
    """The response. An array of texts gets arrays, also for the detected language, which is the same for all."""
    tree: dict[str, Any] = {"translatedText": found.texts if batch else found.texts[0]}
    if found.detected:
        language = _detected(*found.detected)
        tree["detectedLanguage"] = [language] * len(found.texts) if batch else language
    if request.alternatives:
        tree["alternatives"] = found.alternatives if batch else found.alternatives[0]
    if request.sentences:
        pairs = [[{"source": one, "translation": other} for one, other in each] for each in found.sentences]
        tree["sentences"] = pairs if batch else (pairs or [[]])[0]
    if request.doubt:
        doubts = doubts_of(found)
        tree["doubt"] = doubts if batch else doubts[0]
    return tree


def doubts_of(found: TranslatedTexts) -> list[dict[str, Any]]:
    """Of each text, what /api/translate has beside its translation. One that was not translated has no confidence."""
    confidences = found.confidences or [None] * len(found.texts)
    warnings = found.warnings or [[] for _ in found.texts]
    return [
        {
            "confidence": rounded(one.whole) if one else None,
            "words": words_tree(one.words) if one else [],
            "warnings": [warning._asdict() for warning in some],
        }
        for one, some in zip(confidences, warnings, strict=True)
    ]


def _detected(language: str, confidence: float) -> dict[str, Any]:
    return {"confidence": confidence, "language": public(language)}


def offered(catalogue: Catalogue, limit: int | None = None) -> list[dict[str, Any]]:
    """The languages, with as many targets each. A model may have 40,000 directions, so this is computed once."""
    shown = {code: public(code) for code in catalogue.languages()}
    return [
        {
            "code": shown[code],
            "name": name(code),
            "targets": [shown[target] for target in catalogue.targets(code)[:limit]],
        }
        for code in catalogue.languages()[:limit]
    ]


def frontend(settings: Settings, catalogue: Catalogue, keys: bool = False) -> dict[str, Any]:
    target = sample(catalogue).target
    return {
        "charLimit": settings.char_limit,
        "frontendTimeout": FRONTEND_TIMEOUT,
        "apiKeys": keys,
        "keyRequired": keys,
        "suggestions": bool(settings.suggestions),
        "filesTranslation": settings.document_limit != 0,
        "supportedFilesFormat": FILE_FORMATS if settings.document_limit else [],
        "language": {
            "source": {"code": "auto", "name": "Auto Detect"},
            "target": {"code": public(target), "name": name(target)},
        },
    }


class _OpenApi:
    """The OpenAPI description of each route, with examples that this server can answer."""

    def __init__(self, settings: Settings, catalogue: Catalogue):
        example = sample(catalogue)
        source, target = public(example.source), public(example.target)
        detected = {"confidence": 98.0, "language": source}
        key = {"description": "The API key, if one is required; or send `Authorization: Bearer KEY` as a header."}
        codes = [public(code) for code in catalogue.languages()]
        string = {"type": "string"}

        self.translate_body = request_body(
            {
                "q": {
                    "description": "The text, or an array of texts.",
                    "anyOf": [{"type": "string", "minLength": 1}, array(string, minItems=1)],
                },
                "source": choice("The source language, or `auto` to detect it.", ["auto", *codes]),
                "target": choice("The target language.", codes),
                "format": choice("`html` preserves tags and attributes.", ["text", "html"], default="text"),
                "alternatives": {
                    "type": "integer",
                    "description": "Maximum number of alternative translations.",
                    "default": 0,
                    "maximum": _max_alternatives(settings),
                },
                "glossary": array(
                    array(text("A term, its translation and, optionally, `must` or `prefer`."), minItems=2, maxItems=3),
                    description="Terms of this request (our addition, for JSON). It needs a model that translates "
                    "directly between the languages.",
                    maxItems=MAX_TERMS,
                ),
                "sentences": {
                    "type": "boolean",
                    "description": "Also return the sentences (our addition).",
                    "default": False,
                },
                "doubt": {
                    "type": "boolean",
                    "description": "Also return how likely the text and each of its words is right, and warnings.",
                    "default": False,
                },
                "api_key": key,
            },
            ("q", "source", "target"),
            {"q": example.text, "source": source, "target": target},
            form={"q": text("The text.", minLength=1)},
        )
        pair = obj({"source": string, "translation": string})
        translated = obj(
            {
                "translatedText": {"anyOf": [string, array(string)]},
                "detectedLanguage": {"anyOf": [_DETECTED, array(_DETECTED)]},
                "alternatives": {"anyOf": [array(string), array(array(string))]},
                "sentences": {"anyOf": [array(pair), array(array(pair))]},
                "doubt": {"anyOf": [_DOUBT, array(_DOUBT)]},
            },
            ("translatedText",),
        )
        refused = errors(400, 403, 413, 429, 503)
        self.translate_responses = {
            200: response("Translated.", translated, {"translatedText": example.translation}),
            **refused,
        }

        self.detect_body = request_body(
            {"q": text("The text.", minLength=1), "api_key": key}, ("q",), {"q": example.text}
        )
        self.detect_responses = {200: response("Detected.", array(_DETECTED), [detected]), **refused}

        language = obj(
            {"code": text("Its code."), "name": text("Its name."), "targets": array(string)},
            ("code", "name", "targets"),
        )
        self.languages = {200: response("By code.", array(language), offered(catalogue, EXAMPLES)), **errors()}
        self.settings = {
            200: response("For a front end.", obj({}, additionalProperties=True), frontend(settings, catalogue)),
            **errors(429),
        }
        self.file_body = upload_body(
            {
                "source": choice("The source language, or `auto` to detect it.", ["auto", *codes]),
                "target": choice("The target language.", codes),
                "columns": text("Of a table, or keys of JSON: which to translate, by name or number, with commas."),
                "api_key": key,
            },
            ("source", "target"),
            {"source": source, "target": target},
        )
        link = "http://localhost:5000/download_file/4f1c.report.docx"
        self.file_responses = {
            200: response("Translated.", obj({"translatedFileUrl": string}), {"translatedFileUrl": link}),
            **refused,
        }
        self.download = {200: file_description(), **errors(404, 429)}


_DETECTED: Schema = obj(
    {"confidence": {"type": "number", "minimum": 0, "maximum": 100}, "language": {"type": "string"}},
    ("confidence", "language"),
)
_NUMBER: Schema = {"type": "number", "minimum": 0, "maximum": 1}
_DOUBT: Schema = obj(
    {
        "confidence": {"anyOf": [_NUMBER, {"type": "null"}]},
        "words": array(
            obj({"start": {"type": "integer"}, "end": {"type": "integer"}, "confidence": _NUMBER}, ("start", "end"))
        ),
        "warnings": array(obj({"check": {"type": "string"}, "message": {"type": "string"}}, ("check", "message"))),
    },
    ("confidence", "words", "warnings"),
)
