"""S6, S15: whatever our OpenAPI description allows, and whatever it does not, is answered: never with a 5xx.

schemathesis makes requests of it, right ones and wrong ones, for an application without models.
"""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.config import GenerationConfig, SchemathesisConfig
from serving.fakes import FakeEngine, catalogue

from regard.serving.app import make_app
from regard.serving.settings import Settings

HEADERS = {"Host": "127.0.0.1:5000"}
EXAMPLES = 12


def described() -> Any:
    """The description as a client gets it, with the application behind it."""
    app = make_app(Settings(), catalogue(), FakeEngine(), logged=False)  # type: ignore[arg-type]
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers=HEADERS)
    schema.config.generation.update(modes=list(schemathesis.GenerationMode))
    return schema


schema = described()
