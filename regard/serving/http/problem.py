"""What a route raises to refuse a request: a status, and a sentence without paths for the one who asked."""

from __future__ import annotations

from collections.abc import Mapping


class Problem(Exception):
    """Answered as JSON, `{"error": message}`."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})
