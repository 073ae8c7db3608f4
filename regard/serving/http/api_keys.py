"""API keys. If the server has any, every path except PUBLIC_PATHS requires one, so new routes are protected."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers

from regard.serving.http.http_error import HttpError
from regard.serving.http.routing import is_below
from regard.serving.settings import Settings

PUBLIC_PATHS = frozenset(
    {
        "/",
        "/docs",
        "/docs.css",
        "/docs.js",
        "/frontend/settings",
        "/health",
        "/health/live",
        "/health/ready",
        "/languages",
        "/metrics",
        "/openapi.json",
        "/spec",
    }
)
"""Paths that compute nothing; /metrics has its own token."""
_AUTHORIZATION = re.compile(r"(?:bearer|deepl-auth-key) +(\S+)", re.IGNORECASE)


class ApiKeys:
    """Stores and compares digests, so that a comparison takes constant time."""

    def __init__(self, settings: Settings):
        self.digests = [_digest(key) for key in settings.api_keys]
        self.contact = f"Visit {settings.key_link}" if settings.key_link else "Please contact the server operator"

    def required(self, path: str) -> bool:
        return bool(self.digests) and path not in PUBLIC_PATHS

    def owner(self, given: str | None) -> str:
        """An identifier of the key's owner (its digest) that can be stored safely; empty if the key is unknown."""
        digest = _digest(given or "")
        found = [hmac.compare_digest(digest, known) for known in self.digests]  # always all of them, for constant time
        return digest.hex() if given and any(found) else ""

    def check(self, path: str, given: str | None, owner: str) -> None:
        """Refuses a missing or wrong key with the status that the path's API uses."""
        if not self.required(path) or owner:
            return
        if given:
            raise HttpError(403, "Invalid API key")
        missing = f"{self.contact} to get an API key"
        if is_below(path, "/v2"):
            raise HttpError(403, missing)
        if is_below(path, "/api"):
            raise HttpError(401, missing, {"WWW-Authenticate": "Bearer"})
        raise HttpError(400, missing)


def key_in_header(headers: Headers) -> str | None:
    """`Authorization: Bearer KEY`, or DeepL's `Authorization: DeepL-Auth-Key KEY`."""
    found = _AUTHORIZATION.fullmatch(headers.get("authorization", "").strip())
    return found[1].encode("latin-1").decode("utf-8", "replace") if found else None  # headers are decoded as Latin-1


def key_in_fields(fields: Mapping[str, Any]) -> str | None:
    key = fields.get("api_key")
    return None if key is None or key == "" else str(key)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
