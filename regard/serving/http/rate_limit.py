"""How often one may ask: so many requests a minute for each key or, without one, for each address."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from regard.serving.http.problem import Problem

MINUTE = 60.0
FREE = frozenset({"/health", "/languages"})
"""What may be asked at any time."""


class Rates:
    """A caller's minute begins with its first request. At most `most` callers are remembered, the latest: somebody who
    has more addresses than that is not held back by counting addresses."""

    def __init__(self, limit: int, most: int = 65_536, clock: Callable[[], float] = time.monotonic):
        self.limit, self.most, self.clock = limit, most, clock
        self._callers: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """When the minute of each began, oldest first, and how often it asked since."""

    def __len__(self) -> int:
        return len(self._callers)

    def count(self, caller: str) -> None:
        if self.limit < 0:
            return
        now = self.clock()
        self._forget(now - MINUTE)
        began, asked = self._callers.get(caller, (now, 0))
        if asked >= self.limit:
            wait = max(1, math.ceil(began + MINUTE - now))
            raise Problem(429, f"Slowdown: {self.limit} per 1 minute", {"Retry-After": str(wait)})
        self._callers[caller] = (began, asked + 1)
        if len(self._callers) > self.most:
            self._callers.popitem(last=False)

    def _forget(self, before: float) -> None:
        while self._callers and self._callers[next(iter(self._callers))][0] <= before:
            self._callers.popitem(last=False)
