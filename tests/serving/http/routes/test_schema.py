"""S6: whatever our OpenAPI description allows, and whatever it does not, is answered, and never with a 5xx.

schemathesis makes requests of the description, right ones and wrong ones, for an application without models.
"""

from __future__ import annotations

import json
import tempfile
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import strategies
from schemathesis import GenerationMode
from serving.fakes import FOLDERS, FakePool

from regard import registry
from regard.serving.catalogue import Catalogue, ServedModel
from regard.serving.http.app import make_app
from regard.serving.settings import Settings

HOST = {"Host": "127.0.0.1:5000"}
LANGUAGES = {"source": "fr", "target": "en", "target_lang": "EN", "source_lang": "FR"}
"""Values that random generation would never hit."""


def application() -> Any:
    """An app with one model per task, so that requests need not name one."""
    tasks = [task for task in registry.kinds("serving/workers/tasks") if task != "translate"]
    models = [
        ServedModel("fr-en", FOLDERS, "translate", "fr", "en"),
        *(ServedModel(task, FOLDERS, task) for task in tasks),
    ]
    settings = Settings(state=f"{tempfile.mkdtemp()}/state", metrics=True, text_limit=1 << 16, body_limit=1 << 17)
    app = make_app(settings, Catalogue(models), FakePool(), log_requests=False)  # type: ignore[arg-type]

    async def called(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "client": ("127.0.0.1", 4321)}, receive, send)  # the test client says it in another way

    return called


SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", application(), headers=HOST)
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations()}
TAKING = [label for label, operation in OPERATIONS.items() if operation.body]
NEVER = {"POST /suggest", "POST /translate_file", "GET /download_file/{name}"}
NEVER |= {"POST /v2/glossaries", "GET /v2/glossaries/{glossary_id}", "DELETE /v2/glossaries/{glossary_id}"}
NEVER |= {"GET /v2/glossaries/{glossary_id}/entries"}
NEVER |= {"POST /v2/document", "POST /v2/document/{id}", "POST /v2/document/{id}/result"}
"""Routes that always refuse what is made here: there is no such document, and none has a name; or they create (201)."""


def ask(case: Any) -> int:
    response = case.call(headers=HOST)
    assert response.status_code < 500, f"{response.status_code} to {case.as_curl_command()[:1000]}"
    if response.status_code >= 400:
        assert set(json.loads(response.content)) == {"message" if case.path.startswith("/v2/") else "error"}
    return response.status_code


def tried(label: str, mode: GenerationMode, examples: int) -> dict[int, int]:
    """How often each status was returned."""
    seen: dict[int, int] = {}

    @hypothesis.settings(
        max_examples=examples,
        database=None,
        phases=[hypothesis.Phase.generate],  # the first that fails will do
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=OPERATIONS[label].as_strategy(generation_mode=mode), known=strategies.booleans())
    def run(case: Any, known: bool) -> None:
        if known and isinstance(case.body, dict):
            case.body = {**case.body, **{name: code for name, code in LANGUAGES.items() if name in case.body}}
        status = ask(case)
        seen[status] = seen.get(status, 0) + 1

    run()
    return seen


def test_the_description_covers_every_route() -> None:
    described = set(SCHEMA.raw_schema["paths"])
    assert {
        "/translate",
        "/detect",
        "/languages",
        "/health",
        "/frontend/settings",
        "/spec",
        "/v2/translate",
    } <= described
    assert {f"/api/{task}" for task in registry.kinds("serving/workers/tasks")} <= described


@pytest.mark.parametrize("label", OPERATIONS)
def test_S6_what_is_described_is_answered(label: str) -> None:
    seen = tried(label, GenerationMode.POSITIVE, 10)
    assert (200 in seen) is (label not in NEVER), seen


@pytest.mark.parametrize("label", TAKING)
def test_S6_what_is_not_described_is_refused_without_a_5xx(label: str) -> None:
    seen = tried(label, GenerationMode.NEGATIVE, 15)
    assert any(400 <= status < 500 for status in seen), seen


@pytest.mark.slow
@pytest.mark.parametrize("label", OPERATIONS)
def test_S6_zero_5xx_in_many_requests(label: str) -> None:
    for mode in GenerationMode if label in TAKING else [GenerationMode.POSITIVE]:
        tried(label, mode, 300)
