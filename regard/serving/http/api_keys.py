"""API keys. If the server has any, every path except PUBLIC_PATHS requires one, so new routes are protected."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers

from regard.serving.http.http_error import HttpError
from regard.serving.http.routing import is_below
from regard.serving.http.shared_state import SharedState
from regard.serving.settings import Settings
from regard.serving.state import KeyStatus, StateUnavailable, digest_of

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
DOWNLOADS = "/download_file"
"""Below it are links that only those know who were given them, and they follow them without a key."""
PAGE = "/page"
"""Below it are the files of the page to translate, which are the same on every server."""
_AUTHORIZATION = re.compile(r"(?:bearer|deepl-auth-key) +(\S+)", re.IGNORECASE)


class ApiKeys:
    """The keys that the server was started with and those of the state store, all as digests."""

    def __init__(self, settings: Settings, shared: SharedState | None = None):
        self.shared = shared
        self.digests = [digest_of(key) for key in settings.api_keys]
        self.contact = f"Visit {settings.key_link}" if settings.key_link else "Please contact the server operator"

    async def status(self, path: str, given: str | None) -> KeyStatus:
        """Whether the key is known, and whether the path requires one. Raises 503 if only a state store that does not
        answer could tell."""
        own = self._is_own(given)
        required, public = bool(self.digests), is_public(path)
        if self.shared is None or own or (public and not given):
            return KeyStatus(own, required and not public)
        try:
            stored = await self.shared.key_status(digest_of(given or ""))
        except StateUnavailable:
            if self.shared.keys_required and not public:
                raise HttpError(503, "API keys cannot be checked at present", {"Retry-After": "2"}) from None
            stored = KeyStatus(False, False)
        return KeyStatus(bool(given) and stored.known, (required or stored.required) and not public)

    def _is_own(self, given: str | None) -> bool:
        """Whether it is a key that the server was started with. (The store looks for a digest, whose comparison reveals
        nothing of a key.)"""
        digest = digest_of(given or "")
        found = [hmac.compare_digest(digest, known) for known in self.digests]  # always all of them, for constant time
        return bool(given) and any(found)

    def check(self, path: str, given: str | None, status: KeyStatus) -> None:
        """Refuses a missing or wrong key with the status that the path's API uses."""
        if status.known or not status.required:
            return
        if given:
            raise HttpError(403, "Invalid API key")
        missing = f"{self.contact} to get an API key"
        if is_below(path, "/v2"):
            raise HttpError(403, missing)
        if is_below(path, "/api"):
            raise HttpError(401, missing, {"WWW-Authenticate": "Bearer"})
        raise HttpError(400, missing)


def is_public(path: str) -> bool:
    return path in PUBLIC_PATHS or is_below(path, DOWNLOADS) or is_below(path, PAGE)


def key_in_header(headers: Headers) -> str | None:
    """`Authorization: Bearer KEY`, or DeepL's `Authorization: DeepL-Auth-Key KEY`."""
    found = _AUTHORIZATION.fullmatch(headers.get("authorization", "").strip())
    return found[1].encode("latin-1").decode("utf-8", "replace") if found else None  # headers are decoded as Latin-1


def key_in_fields(fields: Mapping[str, Any]) -> str | None:
    key = fields.get("api_key")
    return None if key is None or key == "" else str(key)
