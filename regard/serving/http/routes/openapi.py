"""What OpenAPI is told of routes that read their fields themselves: bodies, answers and refusals, with examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.serving.catalogue import Catalogue

Schema = dict[str, Any]

SENTENCES = {
    "de": "Ich bin Student.",
    "en": "I am a student.",
    "es": "Soy estudiante.",
    "fr": "Je suis étudiant.",
    "it": "Sono uno studente.",
    "pt": "Eu sou estudante.",
}

REFUSALS = {
    400: ("Not understood, or not offered here.", "Invalid request: missing q parameter"),
    403: ("The API key is wrong or may not do this.", "Invalid API key"),
    413: ("The body is too large.", "The body is larger than this server takes (1048576 bytes)"),
    429: ("Too many requests; `Retry-After` says how many seconds to wait.", "Slowdown: 2 per 1 minute"),
    503: ("Too busy now; `Retry-After` says how many seconds to wait.", "The server is busy; try again in 3 s"),
}


@dataclass(frozen=True)
class Sample:
    """A sentence that this server can translate, for examples that can be tried as they are."""

    text: str
    source: str
    target: str
    translation: str


def sample(catalogue: Catalogue) -> Sample:
    translators = catalogue.of_task("translate")
    source, target = (translators[0].source, translators[0].target) if translators else ("fr", "en")
    text = SENTENCES.get(source, "...")
    return Sample(text, source, target, SENTENCES.get(target, "..."))


def text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def chosen(description: str, among: list[str], **more: Any) -> Schema:
    return text(description, **({"enum": among} if among else {}), **more)


def listed(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def tree(properties: Mapping[str, Schema], required: tuple[str, ...] = (), **more: Any) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        **({"required": list(required)} if required else {}),
        **more,
    }


def fields(
    properties: Mapping[str, Schema],
    required: tuple[str, ...],
    example: Mapping[str, Any],
    form: Mapping[str, Schema] | None = None,
) -> dict[str, Any]:
    """The body of a request: JSON, or a form of the same fields but where `form` says something else of them."""
    return {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": tree(properties, required), "example": dict(example)},
                "application/x-www-form-urlencoded": {"schema": tree({**properties, **(form or {})}, required)},
            },
        }
    }


def answer(description: str, schema: Schema, example: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema, "example": example}}}


def refusals(*statuses: int, word: str = "error", examples: Mapping[int, str] | None = None) -> dict[int | str, Any]:
    """All refusals have one shape, also those that any route may give (default), such as for a foreign Host header."""
    shape = tree({word: text("Why, in one line.")}, (word,))
    told = {status: (said, (examples or {}).get(status, example)) for status, (said, example) in REFUSALS.items()}
    found: dict[int | str, Any] = {
        status: answer(told[status][0], shape, {word: told[status][1]}) for status in statuses
    }
    for status in {429, 503} & set(found):
        found[status]["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    found["default"] = answer("Any other refusal.", shape, {word: "Not found"})
    return found
