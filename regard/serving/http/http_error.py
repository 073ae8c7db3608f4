"""The exception for an HTTP error response: a status and a message for the client, without file paths."""

from __future__ import annotations

from collections.abc import Mapping


class HttpError(Exception):
    """Becomes a JSON response, `{"error": message}` (error_responses.py)."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})
