"""LibreTranslate's contract, which most clients speak. Where it would fail on a wrong type, this refuses it (400)."""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from regard.languages import internal, name, public
from regard.serving.catalogue import Catalogue
from regard.serving.http.problem import Problem
from regard.serving.http.request_fields import fields_of
from regard.serving.http.routes.openapi import Schema, answer, chosen, fields, listed, refusals, sample, text, tree
from regard.serving.settings import Settings
from regard.serving.text.detection import detect
from regard.serving.text.translation import Answered, Asked, Translating

FRONTEND_TIMEOUT = 500
"""Milliseconds after the last key stroke that LibreTranslate's page waits before it asks."""
MOST_ALTERNATIVES = 100
"""Where no limit is set: they are searched for all at once, so there must be one."""


def router(settings: Settings, catalogue: Catalogue, translating: Translating) -> APIRouter:
    routes = APIRouter(tags=["LibreTranslate"])
    told = _Told(settings, catalogue)

    @routes.post("/translate", summary="Translate a text, or several", openapi_extra=told.asks, responses=told.answers)
    async def translate(request: Request) -> JSONResponse:
        """Line breaks, emoji, numbers and addresses stay as they are. Several texts are sent as an array in `q`, and
        come back as arrays. The fields may also stand in the address."""
        asked, batch = read(await fields_of(request), settings, request.state.owner)
        return JSONResponse(shaped(asked, await translating.answer(asked), batch))

    @routes.post(
        "/detect", summary="Which language is it?", openapi_extra=told.asks_which, responses=told.answers_which
    )
    async def detect_language(request: Request) -> JSONResponse:
        """The likeliest languages, best first, with a confidence of 0 to 100."""
        q = (await fields_of(request)).get("q")
        if q in (None, ""):
            raise _missing("q")
        if not isinstance(q, str):
            raise Problem(400, "Invalid request: q parameter is not a string")
        _check_size([q], settings.char_limit)
        return JSONResponse([_detected(*found) for found in detect(q)])

    @routes.get("/languages", summary="The languages of this server", responses=told.languages)
    async def languages() -> JSONResponse:
        """Every language with those that it can be translated into."""
        return JSONResponse(offered(catalogue))

    @routes.get("/health", summary="Is it there?", responses=told.health)
    async def health(request: Request) -> JSONResponse:
        """`ok`, or with status 503 `starting` (no worker is there yet, or any more), `stalled` (there are workers, but
        none responds) or `stopping`."""
        if request.app.state.draining:
            return JSONResponse({"status": "stopping"}, 503)
        engine = translating.engine
        if engine.ready:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "stalled" if engine.stalled else "starting"}, 503)

    @routes.get("/frontend/settings", summary="What a page needs to know", responses=told.settings)
    async def frontend_settings() -> JSONResponse:
        """Limits and usual languages, for pages and programs that are a front end to a server."""
        return JSONResponse(frontend(settings, catalogue))

    @routes.post("/suggest", summary="Suggest a translation: not offered here", responses=told.no_suggestions)
    async def suggest() -> None:
        """This server does not learn from its users; the answer is always 403."""
        raise Problem(403, NO_SUGGESTIONS)

    @routes.post("/translate_file", summary="Translate a file: not offered here", responses=told.no_files)
    async def translate_file() -> None:
        """Send the text of the file to `/translate`, with `format` html for a page; the answer is always 403."""
        raise Problem(403, NO_FILES)

    return routes


NO_SUGGESTIONS = "Suggestions are disabled on this server."
NO_FILES = "Files translation are disabled on this server."


# What is asked.


def read(given: dict[str, Any], settings: Settings, owner: str) -> tuple[Asked, bool]:
    """What is to be translated, and whether it came as an array. Refuses in the order that LibreTranslate does."""
    q = given.get("q")
    if q in (None, "", []):
        raise _missing("q")
    texts = q if isinstance(q, list) else [q]
    if not all(isinstance(one, str) for one in texts):
        raise Problem(400, "Invalid request: q parameter is neither a string nor an array of strings")
    source, target = _language(given, "source"), _language(given, "target")
    format = given.get("format")
    if format not in (None, "", "text", "html"):
        raise Problem(400, f"{format} format is not supported")
    alternatives = _alternatives(given.get("alternatives", 0), settings)
    if texts is q:
        _check_count(len(texts), settings.batch_limit)
    _check_size(texts, settings.char_limit)
    return Asked(texts, source, target, format == "html", alternatives, owner), texts is q


def _language(given: dict[str, Any], field: str) -> str:
    code = given.get(field)
    if code in (None, ""):
        raise _missing(field)
    if not isinstance(code, str):
        raise Problem(400, f"Invalid request: {field} parameter is not a string")
    return internal(code)


def _alternatives(wanted: Any, settings: Settings) -> int:
    """A number or, as forms have it, the digits of one. True is an integer for Python, but not for us."""
    if isinstance(wanted, str) and re.fullmatch(r"[+-]?[0-9]{1,300}", wanted):
        wanted = int(wanted)
    if type(wanted) is not int:
        raise Problem(400, "Invalid request: alternatives parameter is not a number")
    limit = _most_alternatives(settings)
    if limit < wanted:
        raise Problem(400, f"Invalid request: alternatives parameter must be <= {limit}")
    return max(0, wanted)


def _most_alternatives(settings: Settings) -> int:
    return settings.alternatives_limit if settings.alternatives_limit >= 0 else MOST_ALTERNATIVES


def _missing(field: str) -> Problem:
    return Problem(400, f"Invalid request: missing {field} parameter")


def _check_count(size: int, limit: int) -> None:
    if 0 <= limit < size:
        raise Problem(400, f"Invalid request: request ({size}) exceeds text limit ({limit})")


def _check_size(texts: list[str], limit: int) -> None:
    _check_count(sum(map(len, texts)), limit)


# What is answered.


def shaped(asked: Asked, answered: Answered, batch: bool) -> dict[str, Any]:
    """An array of texts gets arrays, also of what was detected: the same for each text."""
    tree: dict[str, Any] = {"translatedText": answered.texts if batch else answered.texts[0]}
    if answered.detected:
        found = _detected(*answered.detected)
        tree["detectedLanguage"] = [found] * len(answered.texts) if batch else found
    if asked.alternatives:
        tree["alternatives"] = answered.alternatives if batch else answered.alternatives[0]
    return tree


def _detected(language: str, confidence: float) -> dict[str, Any]:
    return {"confidence": confidence, "language": public(language)}


def offered(catalogue: Catalogue) -> list[dict[str, Any]]:
    return [
        {"code": public(code), "name": name(code), "targets": [public(target) for target in catalogue.targets(code)]}
        for code in catalogue.languages()
    ]


def frontend(settings: Settings, catalogue: Catalogue) -> dict[str, Any]:
    usual = sample(catalogue).target
    return {
        "charLimit": settings.char_limit,
        "frontendTimeout": FRONTEND_TIMEOUT,
        "apiKeys": bool(settings.api_keys),
        "keyRequired": bool(settings.api_keys),
        "suggestions": False,
        "filesTranslation": False,
        "supportedFilesFormat": [],
        "language": {
            "source": {"code": "auto", "name": "Auto Detect"},
            "target": {"code": public(usual), "name": name(usual)},
        },
    }


class _Told:
    """What OpenAPI is told of each route, with examples that this server can answer."""

    def __init__(self, settings: Settings, catalogue: Catalogue):
        example = sample(catalogue)
        source, target = public(example.source), public(example.target)
        detected = {"confidence": 98.0, "language": source}
        key = {"description": "A key, where the server wants one; or `Authorization: Bearer KEY` as a header."}
        codes = [public(code) for code in catalogue.languages()]
        string = {"type": "string"}

        self.asks = fields(
            {
                "q": {
                    "description": "The text, or an array of texts.",
                    "anyOf": [{"type": "string", "minLength": 1}, listed(string, minItems=1)],
                },
                "source": chosen("The language of the text, or `auto` to have it detected.", ["auto", *codes]),
                "target": chosen("The language wanted.", codes),
                "format": chosen("`html` keeps tags and attributes.", ["text", "html"], default="text"),
                "alternatives": {
                    "type": "integer",
                    "description": "How many other translations are wanted, at most.",
                    "default": 0,
                    "maximum": _most_alternatives(settings),
                },
                "api_key": key,
            },
            ("q", "source", "target"),
            {"q": example.text, "source": source, "target": target},
            form={"q": text("The text.", minLength=1)},
        )
        translated = tree(
            {
                "translatedText": {"anyOf": [string, listed(string)]},
                "detectedLanguage": {"anyOf": [_DETECTED, listed(_DETECTED)]},
                "alternatives": {"anyOf": [listed(string), listed(listed(string))]},
            },
            ("translatedText",),
        )
        refused = refusals(400, 403, 413, 429, 503)
        self.answers = {200: answer("Translated.", translated, {"translatedText": example.translation}), **refused}

        self.asks_which = fields({"q": text("The text.", minLength=1), "api_key": key}, ("q",), {"q": example.text})
        self.answers_which = {200: answer("Detected.", listed(_DETECTED), [detected]), **refused}

        language = tree(
            {"code": text("Its code."), "name": text("Its name."), "targets": listed(string)},
            ("code", "name", "targets"),
        )
        self.languages = {200: answer("By code.", listed(language), offered(catalogue)), **refusals()}
        self.health = {200: answer("It is.", tree({"status": string}, ("status",)), {"status": "ok"}), **refusals()}
        self.settings = {
            200: answer("For a front end.", tree({}, additionalProperties=True), frontend(settings, catalogue)),
            **refusals(429),
        }
        self.no_suggestions = _never(NO_SUGGESTIONS)
        self.no_files = _never(NO_FILES)


_DETECTED: Schema = tree(
    {"confidence": {"type": "number", "minimum": 0, "maximum": 100}, "language": {"type": "string"}},
    ("confidence", "language"),
)


def _never(why: str) -> dict[int | str, Any]:
    return refusals(403, 413, 429, examples={403: why})
