"""The rate limit: requests per minute and API key or, without keys, client address."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from regard.serving.http.api_keys import PAGE
from regard.serving.http.health import HEALTH_PATHS
from regard.serving.http.http_error import HttpError
from regard.serving.http.routing import is_below
from regard.serving.http.shared_state import SharedState
from regard.serving.state import MINUTE, StateUnavailable

UNLIMITED_PATHS = HEALTH_PATHS | {"/", "/languages"}
"""Paths that do not count, besides the files of the page."""


def is_limited(path: str) -> bool:
    return path not in UNLIMITED_PATHS and not is_below(path, PAGE)


class RateLimiter:
    """Fixed windows of a minute that start with a client's first request. At most `max_clients` are tracked, the latest
    ones: counting addresses does not stop anyone who has more of them."""

    def __init__(self, limit: int, max_clients: int = 65_536, clock: Callable[[], float] = time.monotonic):
        self.limit, self.max_clients, self.clock = limit, max_clients, clock
        self._clients: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """Start of the window, oldest first, and the requests in it."""

    def __len__(self) -> int:
        return len(self._clients)

    async def count_shared(self, client: str, shared: SharedState | None) -> None:
        """Counts a request in the state store, for all servers together; without one, or if it fails, for this server
        alone. Raises 429 beyond the limit."""
        if self.limit < 0:
            return
        try:
            if shared is None:
                raise StateUnavailable
            wait = await shared.count(client, self.limit)
        except StateUnavailable:
            self.count(client)
        else:
            if wait:
                raise self._refused(wait)

    def count(self, client: str) -> None:
        if self.limit < 0:
            return
        now = self.clock()
        self._forget(now - MINUTE)
        began, requests = self._clients.get(client, (now, 0))
        if requests >= self.limit:
            raise self._refused(max(1, math.ceil(began + MINUTE - now)))
        self._clients[client] = (began, requests + 1)
        if len(self._clients) > self.max_clients:
            self._clients.popitem(last=False)

    def _refused(self, wait: int) -> HttpError:
        return HttpError(429, f"Slowdown: {self.limit} per 1 minute", {"Retry-After": str(wait)})

    def _forget(self, before: float) -> None:
        while self._clients and self._clients[next(iter(self._clients))][0] <= before:
            self._clients.popitem(last=False)
