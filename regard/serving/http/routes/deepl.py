"""DeepL's API, as far as its official clients need it to translate texts and documents."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from regard.documents.formats import suffix_of, written_as
from regard.languages import from_deepl, internal, name, public, to_deepl
from regard.serving.catalogue import Catalogue
from regard.serving.http.documents import Documents, file_response
from regard.serving.http.http_error import HttpError
from regard.serving.http.request_fields import fields_of, upload_of
from regard.serving.http.routes.glossaries import with_glossary
from regard.serving.http.routes.openapi import (
    array,
    choice,
    errors,
    file_description,
    obj,
    request_body,
    response,
    sample,
    upload_body,
)
from regard.serving.settings import Settings
from regard.serving.text.translator import TextTranslator, TranslationRequest

VARIANTS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
}
"""DeepL's clients refuse these target languages without a region."""
CHARACTER_LIMIT = 10**12
"""The quota that clients are shown; there is none."""
YES, NO = (True, "1", "true"), (False, None, "", "0", "false")


def router(settings: Settings, catalogue: Catalogue, translator: TextTranslator, documents: Documents) -> APIRouter:
    routes = APIRouter(prefix="/v2", tags=["DeepL"])
    docs = _OpenApi(catalogue)
    languages_by_kind = {kind: offered(catalogue, kind) for kind in ("source", "target")}
    used = 0

    @routes.post(
        "/translate", summary="Translate texts", openapi_extra=docs.translate_body, responses=docs.translate_responses
    )
    async def translate(request: Request) -> JSONResponse:
        """Other options of DeepL, such as `formality`, are accepted and ignored. Without `source_lang` the language is
        detected for all texts together."""
        nonlocal used
        given = await fields_of(request)
        translation = read(given, settings, catalogue, request.state.owner)
        if given.get("glossary_id"):
            translation = await with_glossary(request, given["glossary_id"], translation)
        counted = given.get("show_billed_characters")
        if counted not in YES + NO:
            raise HttpError(400, "Value for 'show_billed_characters' not supported.")
        found = await translator.translate(translation)
        used += sum(map(len, translation.texts))
        source = found.detected[0] if found.detected else translation.source
        return JSONResponse(
            {
                "translations": [
                    {
                        "detected_source_language": to_deepl(source),
                        "text": translated,
                        **({"billed_characters": len(original)} if counted in YES else {}),
                    }
                    for original, translated in zip(translation.texts, found.texts, strict=True)
                ]
            }
        )

    @routes.post(
        "/document", summary="Upload a document", openapi_extra=docs.document_body, responses=docs.document_responses
    )
    async def upload(request: Request) -> JSONResponse:
        """Begins to translate a document. The response says by which id and key to ask for it. The translation is kept
        for half an hour."""
        if not documents.enabled:
            raise HttpError(403, "Documents are disabled on this server.")
        given, file = await fields_of(request), await upload_of(request)
        if file is None:
            raise HttpError(400, "Parameter 'file' not specified.")
        named = given.get("filename") or file.name
        if not isinstance(named, str):
            raise HttpError(400, "Value for 'filename' not supported.")
        wanted = given.get("output_format") or ""
        suffix, made = suffix_of(named), written_as(named)[0]
        if not isinstance(wanted, str) or (wanted.lower() or suffix[1:]) != made[1:]:
            kept = (
                "a document keeps its format"
                if made == suffix
                else f"the translation of a {suffix[1:]} is a {made[1:]}"
            )
            raise HttpError(400, f"Value for 'output_format' not supported: {kept}.")
        source, target = _languages(given, catalogue)

        def count(characters: int) -> None:
            nonlocal used
            used += characters

        held = documents.start(file._replace(name=named), source, target, request.state.owner, count)
        return JSONResponse({"document_id": held.id, "document_key": held.key})

    @routes.post(
        "/document/{id}", summary="Status of a document", openapi_extra=docs.key_body, responses=docs.status_responses
    )
    async def status(request: Request, id: str) -> JSONResponse:
        """`queued`, `translating`, `done` or `error`. Only the owner of the API key that sent it may ask."""
        held = documents.find(id, request.state.owner, await _document_key(request))
        found: dict[str, Any] = {"document_id": held.id, "status": held.status}
        if held.status == "translating":
            found["seconds_remaining"] = held.seconds_remaining
        if held.status == "done":
            found["billed_characters"] = held.characters
        if held.status == "error":
            found["error_message"] = held.error
        return JSONResponse(found)

    @routes.post(
        "/document/{id}/result",
        summary="Download a document",
        openapi_extra=docs.key_body,
        responses=docs.result_responses,
    )
    async def result(request: Request, id: str) -> Response:
        """The translation. It is given out once, then forgotten."""
        held = documents.find(id, request.state.owner, await _document_key(request))
        if held.status == "error":
            raise HttpError(400, held.error)
        if held.status != "done":
            raise HttpError(503, "Document not ready", {"Retry-After": str(held.seconds_remaining)})
        return file_response(held, documents.take(held))

    @routes.post("/languages", summary="List languages", responses=docs.languages, openapi_extra=docs.type)
    @routes.get("/languages", summary="List languages", responses=docs.languages, openapi_extra=docs.type)
    async def languages(request: Request) -> JSONResponse:
        """Source languages, or target languages."""
        kind = (await fields_of(request)).get("type", "source")
        if kind not in ("source", "target"):
            raise HttpError(400, "Value for 'type' not supported.")
        return JSONResponse(languages_by_kind[kind])

    @routes.post("/usage", summary="Usage", responses=docs.usage)
    @routes.get("/usage", summary="Usage", responses=docs.usage)
    async def usage() -> JSONResponse:
        """Characters translated under `/v2` since the server started. The limit is only a large number."""
        return JSONResponse({"character_count": used, "character_limit": CHARACTER_LIMIT})

    return routes


def read(given: dict[str, Any], settings: Settings, catalogue: Catalogue, owner: str) -> TranslationRequest:
    texts = given.get("text")
    if texts in (None, []):
        raise HttpError(400, "Parameter 'text' not specified.")
    texts = texts if isinstance(texts, list) else [texts]
    if not all(isinstance(one, str) for one in texts):
        raise HttpError(400, "Value for 'text' not supported: expected an array of strings.")
    source, target = _languages(given, catalogue)
    tags = given.get("tag_handling") or ""
    if tags not in ("", "html", "xml"):
        raise HttpError(400, "Value for 'tag_handling' not supported.")
    for size, limit, of in (
        (len(texts), settings.batch_limit, "texts"),
        (sum(map(len, texts)), settings.char_limit, "characters"),
    ):
        if 0 <= limit < size:
            raise HttpError(400, f"Too many {of}: {size}; this server takes {limit} in a request.")
    return TranslationRequest(texts, source, target, html=bool(tags), owner=owner)


async def _document_key(request: Request) -> str:
    key = (await fields_of(request)).get("document_key")
    if not isinstance(key, str) or not key:
        raise HttpError(400, "Parameter 'document_key' not specified.")
    return key


def _languages(given: dict[str, Any], catalogue: Catalogue) -> tuple[str, str]:
    """Source, or `auto`, and target."""
    target = _language(given, "target_lang", catalogue)
    if not target:
        raise HttpError(400, "Parameter 'target_lang' not specified.")
    return _language(given, "source_lang", catalogue) or "auto", target


def _language(given: dict[str, Any], field: str, catalogue: Catalogue) -> str:
    """The matching language of this server: the same code or, if only the region differs, the available one."""
    code = given.get(field) or ""
    if not isinstance(code, str):
        raise HttpError(400, f"Value for '{field}' not supported.")
    known = catalogue.languages()
    exact = next((one for one in (internal(code), from_deepl(code)) if one in known), None)
    same_language = (one for one in known if to_deepl(one).lower() == from_deepl(code))
    return exact or next(same_language, internal(code))


def offered(catalogue: Catalogue, kind: str) -> list[dict[str, Any]]:
    names: dict[str, str] = {}
    codes = catalogue.sources() if kind == "source" else catalogue.all_targets()
    for code in sorted(codes, key=lambda code: (-len(code), code)):  # the plain code names the language, not a variant
        plain = {to_deepl(code): name(code)}
        names |= plain if kind == "source" else VARIANTS.get(code, {public(code).upper(): name(code)})
    return [{"language": code, "name": names[code], "supports_formality": False} for code in sorted(names)]


class _OpenApi:
    """The OpenAPI description of each route, with examples that this server can answer."""

    def __init__(self, catalogue: Catalogue):
        example = sample(catalogue)
        string = {"type": "string"}
        several = array(string, minItems=1)

        def codes(kind: str) -> list[str]:
            return [language["language"] for language in offered(catalogue, kind)]

        self.translate_body = request_body(
            {
                "text": {"description": "The texts.", **several},
                "target_lang": choice("The target language; regions are ignored.", codes("target")),
                "source_lang": choice("The source language; detected if omitted.", codes("source")),
                "tag_handling": choice("Preserve tags and attributes.", ["html", "xml"]),
                "glossary_id": {"description": "A glossary of `/v2/glossaries`; needs `source_lang`.", **string},
                "show_billed_characters": {"type": "boolean", "description": "Return the number of characters."},
            },
            ("text", "target_lang"),
            {"text": [example.text], "target_lang": next(iter(codes("target")), "EN-US")},
        )
        one = {"detected_source_language": string, "text": string, "billed_characters": {"type": "integer"}}
        translated = obj({"translations": array(obj(one, ("detected_source_language", "text")))}, ("translations",))
        shown = {"translations": [{"detected_source_language": to_deepl(example.source), "text": example.translation}]}
        missing = {400: "Parameter 'text' not specified."}
        refused = errors(400, 403, 404, 413, 429, 503, key="message", examples=missing)
        self.translate_responses = {200: response("Translated.", translated, shown), **refused}

        self.document_body = upload_body(
            {
                "target_lang": choice("The target language; regions are ignored.", codes("target")),
                "source_lang": choice("The source language; detected if omitted.", codes("source")),
                "filename": {"type": "string", "description": "Its name, if not that of the file."},
                "output_format": {"type": "string", "description": "For a PDF `docx`; others keep their format."},
            },
            ("target_lang",),
            {"target_lang": next(iter(codes("target")), "EN-US")},
        )
        handle = {"document_id": string, "document_key": string}
        shown_handle = {"document_id": "4f1c", "document_key": "9a3e"}
        self.document_responses = {
            200: response("Accepted.", obj(handle, tuple(handle)), shown_handle),
            **errors(400, 403, 413, 429, 503, key="message", examples={400: "Parameter 'file' not specified."}),
        }
        self.key_body = request_body({"document_key": string}, ("document_key",), {"document_key": "9a3e"})
        progress: dict[str, dict[str, Any]] = {
            "document_id": string,
            "status": {"type": "string", "enum": ["queued", "translating", "done", "error"]},
            "seconds_remaining": {"type": "integer"},
            "billed_characters": {"type": "integer"},
            "error_message": string,
        }
        missing_key = {400: "Parameter 'document_key' not specified."}
        refused_key = errors(400, 403, 404, 413, 429, 503, key="message", examples=missing_key)
        shown_status = {"document_id": "4f1c", "status": "translating", "seconds_remaining": 3}
        self.status_responses = {
            200: response("So far.", obj(progress, ("document_id", "status")), shown_status),
            **refused_key,
        }
        self.result_responses = {200: file_description(), **refused_key}

        kind = {"type": "string", "enum": ["source", "target"], "default": "source"}
        self.type = {
            "parameters": [
                {"name": "type", "in": "query", "description": "Source or target languages.", "schema": kind}
            ]
        }
        language = {"language": string, "name": string, "supports_formality": {"type": "boolean"}}
        kinds = {400: "Value for 'type' not supported."}
        self.languages = {
            200: response("By code.", array(obj(language, ("language", "name"))), offered(catalogue, "source")),
            **errors(400, 403, 429, key="message", examples=kinds),
        }
        counts = {"character_count": {"type": "integer"}, "character_limit": {"type": "integer"}}
        self.usage = {
            200: response(
                "So far.", obj(counts, tuple(counts)), {"character_count": 0, "character_limit": CHARACTER_LIMIT}
            ),
            **errors(403, 429, key="message"),
        }
