"""OpenAPI descriptions of routes that read their fields themselves: bodies, responses and errors, with examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.serving.catalogue import Catalogue, ServedModel

Schema = dict[str, Any]

SENTENCES = {
    "de": "Ich bin Student.",
    "en": "I am a student.",
    "es": "Soy estudiante.",
    "fr": "Je suis étudiant.",
    "it": "Sono uno studente.",
    "pt": "Eu sou estudante.",
}

ERRORS = {
    400: ("Invalid request, or not supported by this server.", "Invalid request: missing q parameter"),
    403: ("The API key is wrong, or the operation is not allowed.", "Invalid API key"),
    404: ("There is no such document or glossary.", "No such document or glossary"),
    413: ("The body is too large.", "The body is larger than this server takes (1048576 bytes)"),
    429: ("Too many requests; `Retry-After` says how many seconds to wait.", "Slowdown: 2 per 1 minute"),
    456: ("A limit of the API key is reached.", "Quota exceeded"),
    503: ("Too busy now; `Retry-After` says how many seconds to wait.", "The server is busy; try again in 3 s"),
}


@dataclass(frozen=True)
class Sample:
    """A sentence that this server can translate, so that examples work as they are."""

    text: str
    source: str
    target: str
    translation: str


def sample(catalogue: Catalogue) -> Sample:
    translators = catalogue.of_task("translate")
    source, target = _common(translators[0]) if translators else ("fr", "en")
    text = SENTENCES.get(source, "...")
    return Sample(text, source, target, SENTENCES.get(target, "..."))


def _common(model: ServedModel) -> tuple[str, str]:
    """A direction of a model, of several one that there are sentences for."""
    pairs = [(source, target) for source, targets in model.targets.items() for target in targets]
    known = (pair for pair in pairs if SENTENCES.keys() >= set(pair) and pair[1] == "en")
    return next(known, pairs[0] if pairs else ("", ""))


def text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def choice(description: str, options: list[str], **more: Any) -> Schema:
    return text(description, **({"enum": options} if options else {}), **more)


def array(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def obj(properties: Mapping[str, Schema], required: tuple[str, ...] = (), **more: Any) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        **({"required": list(required)} if required else {}),
        **more,
    }


def request_body(
    properties: Mapping[str, Schema],
    required: tuple[str, ...],
    example: Mapping[str, Any],
    form: Mapping[str, Schema] | None = None,
) -> dict[str, Any]:
    """A request body: JSON, or a form with the same fields; `form` overrides some of them."""
    return {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": obj(properties, required), "example": dict(example)},
                "application/x-www-form-urlencoded": {"schema": obj({**properties, **(form or {})}, required)},
            },
        }
    }


def upload_body(
    properties: Mapping[str, Schema], required: tuple[str, ...], example: Mapping[str, str]
) -> dict[str, Any]:
    """A form with a file and these fields."""
    file = {"type": "string", "format": "binary", "description": "The document; its name says the format."}
    content = {
        "schema": obj({"file": file, **properties}, ("file", *required)),
        "example": {**example, "file": "@report.docx"},
    }
    return {"requestBody": {"required": True, "content": {"multipart/form-data": content}}}


def file_description() -> dict[str, Any]:
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {"description": "The translated document.", "content": content}


def response(description: str, schema: Schema, example: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema, "example": example}}}


def errors(*statuses: int, key: str = "error", examples: Mapping[int, str] | None = None) -> dict[int | str, Any]:
    """Error responses, all of one shape. `default` covers those of any route, such as for a foreign Host header."""
    shape = obj({key: text("The reason, in one line.")}, (key,))
    known = {
        status: (description, (examples or {}).get(status, example))
        for status, (description, example) in ERRORS.items()
    }
    found: dict[int | str, Any] = {
        status: response(known[status][0], shape, {key: known[status][1]}) for status in statuses
    }
    for status in {429, 503} & set(found):
        found[status]["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    found["default"] = response("Any other error.", shape, {key: "Not found"})
    return found
