"""API keys. When a server has any, every path wants one unless it is named here: a new route is closed until somebody
opens it."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers

from regard.serving.http.problem import Problem
from regard.serving.http.routing import is_below
from regard.serving.settings import Settings

OPEN = frozenset(
    {
        "/",
        "/docs",
        "/docs.css",
        "/frontend/settings",
        "/health",
        "/languages",
        "/metrics",
        "/openapi.json",
        "/spec",
    }
)
"""Nothing is computed there; /metrics has a token of its own."""
_AUTHORIZATION = re.compile(r"(?:bearer|deepl-auth-key) +(\S+)", re.IGNORECASE)


class Keys:
    """Knows only digests, so that comparing takes the same time whatever is given."""

    def __init__(self, settings: Settings):
        self.digests = [_digest(key) for key in settings.api_keys]
        self.where = f"Visit {settings.key_link}" if settings.key_link else "Please contact the server operator"

    def wanted(self, path: str) -> bool:
        return bool(self.digests) and path not in OPEN

    def owner(self, given: str | None) -> str:
        """Whose key it is, by a name that can be kept and compared but not used; empty for nobody's."""
        digest = _digest(given or "")
        found = [hmac.compare_digest(digest, known) for known in self.digests]  # all of them, in any case
        return digest.hex() if given and any(found) else ""

    def check(self, path: str, given: str | None, owner: str) -> None:
        """Each contract has its own way to say no."""
        if not self.wanted(path) or owner:
            return
        if given:
            raise Problem(403, "Invalid API key")
        missing = f"{self.where} to get an API key"
        if is_below(path, "/v2"):
            raise Problem(403, missing)
        if is_below(path, "/api"):
            raise Problem(401, missing, {"WWW-Authenticate": "Bearer"})
        raise Problem(400, missing)


def key_in_header(headers: Headers) -> str | None:
    """`Authorization: Bearer KEY`, or DeepL's `Authorization: DeepL-Auth-Key KEY`."""
    found = _AUTHORIZATION.fullmatch(headers.get("authorization", "").strip())
    return found[1].encode("latin-1").decode("utf-8", "replace") if found else None  # headers come as Latin-1


def key_in_fields(fields: Mapping[str, Any]) -> str | None:
    key = fields.get("api_key")
    return None if key is None or key == "" else str(key)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
