"""DeepL's contract, as far as its official clients need it to translate text."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from regard.languages import from_deepl, internal, name, public, to_deepl
from regard.serving.catalogue import Catalogue
from regard.serving.http.problem import Problem
from regard.serving.http.request_fields import fields_of
from regard.serving.http.routes.openapi import answer, chosen, fields, listed, refusals, sample, tree
from regard.serving.settings import Settings
from regard.serving.text.translation import Asked, Translating

VARIANTS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
}
"""DeepL's clients refuse to translate into the language without a region."""
CHARACTER_LIMIT = 10**12
"""What a client is told that it may use: there is no quota here."""
YES, NO = (True, "1", "true"), (False, None, "", "0", "false")


def router(settings: Settings, catalogue: Catalogue, translating: Translating) -> APIRouter:
    routes = APIRouter(prefix="/v2", tags=["DeepL"])
    told = _Told(catalogue)
    used = 0

    @routes.post("/translate", summary="Translate texts", openapi_extra=told.asks, responses=told.answers)
    async def translate(request: Request) -> JSONResponse:
        """What else DeepL's clients may send, such as `formality`, is accepted and makes no difference. If no
        `source_lang` is given, it is detected for all texts together."""
        nonlocal used
        given = await fields_of(request)
        asked = read(given, settings, catalogue, request.state.owner)
        counted = given.get("show_billed_characters")
        if counted not in YES + NO:
            raise Problem(400, "Value for 'show_billed_characters' not supported.")
        answered = await translating.answer(asked)
        used += sum(map(len, asked.texts))
        source = answered.detected[0] if answered.detected else asked.source
        return JSONResponse(
            {
                "translations": [
                    {
                        "detected_source_language": to_deepl(source),
                        "text": translated,
                        **({"billed_characters": len(original)} if counted in YES else {}),
                    }
                    for original, translated in zip(asked.texts, answered.texts, strict=True)
                ]
            }
        )

    @routes.post(
        "/languages", summary="The languages of this server", responses=told.languages, openapi_extra=told.type
    )
    @routes.get("/languages", summary="The languages of this server", responses=told.languages, openapi_extra=told.type)
    async def languages(request: Request) -> JSONResponse:
        """Those that can be translated from, or into."""
        kind = (await fields_of(request)).get("type", "source")
        if kind not in ("source", "target"):
            raise Problem(400, "Value for 'type' not supported.")
        return JSONResponse(offered(catalogue, kind))

    @routes.post("/usage", summary="How much was translated", responses=told.usage)
    @routes.get("/usage", summary="How much was translated", responses=told.usage)
    async def usage() -> JSONResponse:
        """Characters translated below `/v2` since the server was started. There is no limit but a large number."""
        return JSONResponse({"character_count": used, "character_limit": CHARACTER_LIMIT})

    return routes


def read(given: dict[str, Any], settings: Settings, catalogue: Catalogue, owner: str) -> Asked:
    texts = given.get("text")
    if texts in (None, []):
        raise Problem(400, "Parameter 'text' not specified.")
    texts = texts if isinstance(texts, list) else [texts]
    if not all(isinstance(one, str) for one in texts):
        raise Problem(400, "Value for 'text' not supported: an array of strings is wanted.")
    target = _language(given, "target_lang", catalogue)
    if not target:
        raise Problem(400, "Parameter 'target_lang' not specified.")
    source = _language(given, "source_lang", catalogue) or "auto"
    tags = given.get("tag_handling") or ""
    if tags not in ("", "html", "xml"):
        raise Problem(400, "Value for 'tag_handling' not supported.")
    for size, limit, of in (
        (len(texts), settings.batch_limit, "texts"),
        (sum(map(len, texts)), settings.char_limit, "characters"),
    ):
        if 0 <= limit < size:
            raise Problem(400, f"Too many {of}: {size}; this server takes {limit} in a request.")
    return Asked(texts, source, target, html=bool(tags), owner=owner)


def _language(given: dict[str, Any], field: str, catalogue: Catalogue) -> str:
    """The language of this server that is meant: the very one or, where regions alone differ, the one there is."""
    code = given.get(field) or ""
    if not isinstance(code, str):
        raise Problem(400, f"Value for '{field}' not supported.")
    known = catalogue.languages()
    alike = [one for one in known if to_deepl(one).lower() == from_deepl(code)]
    return next((one for one in (internal(code), from_deepl(code), *alike) if one in known), internal(code))


def offered(catalogue: Catalogue, kind: str) -> list[dict[str, Any]]:
    names: dict[str, str] = {}
    for code in sorted({getattr(model, kind) for model in catalogue.of_task("translate")}):
        plain = {to_deepl(code): name(code)}
        names |= plain if kind == "source" else VARIANTS.get(code, {public(code).upper(): name(code)})
    return [{"language": code, "name": names[code], "supports_formality": False} for code in sorted(names)]


class _Told:
    """What OpenAPI is told of each route, with examples that this server can answer."""

    def __init__(self, catalogue: Catalogue):
        example = sample(catalogue)
        string = {"type": "string"}
        several = listed(string, minItems=1)

        def codes(kind: str) -> list[str]:
            return [language["language"] for language in offered(catalogue, kind)]

        self.asks = fields(
            {
                "text": {"description": "The texts.", **several},
                "target_lang": chosen("The language wanted; regions make no difference.", codes("target")),
                "source_lang": chosen("The language of the texts; without it, it is detected.", codes("source")),
                "tag_handling": chosen("Either keeps tags and attributes.", ["html", "xml"]),
                "show_billed_characters": {"type": "boolean", "description": "Count characters in the answer."},
            },
            ("text", "target_lang"),
            {"text": [example.text], "target_lang": next(iter(codes("target")), "EN-US")},
        )
        one = {"detected_source_language": string, "text": string, "billed_characters": {"type": "integer"}}
        translated = tree({"translations": listed(tree(one, ("detected_source_language", "text")))}, ("translations",))
        shown = {"translations": [{"detected_source_language": to_deepl(example.source), "text": example.translation}]}
        missing = {400: "Parameter 'text' not specified."}
        refused = refusals(400, 403, 413, 429, 503, word="message", examples=missing)
        self.answers = {200: answer("Translated.", translated, shown), **refused}

        kind = {"type": "string", "enum": ["source", "target"], "default": "source"}
        self.type = {"parameters": [{"name": "type", "in": "query", "description": "Which of them.", "schema": kind}]}
        language = {"language": string, "name": string, "supports_formality": {"type": "boolean"}}
        kinds = {400: "Value for 'type' not supported."}
        self.languages = {
            200: answer("By code.", listed(tree(language, ("language", "name"))), offered(catalogue, "source")),
            **refusals(400, 403, 429, word="message", examples=kinds),
        }
        counts = {"character_count": {"type": "integer"}, "character_limit": {"type": "integer"}}
        self.usage = {
            200: answer(
                "So far.", tree(counts, tuple(counts)), {"character_count": 0, "character_limit": CHARACTER_LIMIT}
            ),
            **refusals(403, 429, word="message"),
        }
