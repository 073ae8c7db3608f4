"""The state store as the event loop asks it: in threads, with a deadline, and with what happens when it fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from regard.serving.log import timestamp, write
from regard.serving.state import KeyStatus, StateUnavailable, keys_required, open_state

THREADS = 4
DEADLINE = 2.5
"""Seconds that a request waits for the store; the store gives up a little earlier."""
RETRY_SECONDS = 1.0
"""After a failure the store is not asked for this long, so that not every request waits for it in vain."""
Result = TypeVar("Result")


class SharedState:
    """Raises StateUnavailable if the store fails, and writes a line when it begins to fail and when it is back."""

    def __init__(self, where: str):
        self.store = open_state(where)
        self.failures = 0
        self.keys_required = keys_required(where)
        """Once a key was required it stays so: a store that lost its keys must not open the server to everyone."""
        self._threads = ThreadPoolExecutor(THREADS, "state")
        self._failed_at: float | None = None

    async def key_status(self, digest: str) -> KeyStatus:
        status = await self.ask(lambda: self.store.key_status(digest))
        self.keys_required = self.keys_required or status.required
        return KeyStatus(status.known, self.keys_required)

    async def count(self, client: str, limit: int) -> int:
        return await self.ask(lambda: self.store.count(client, limit))

    async def ask(self, question: Callable[[], Result]) -> Result:
        if self._failed_at is not None and time.monotonic() < self._failed_at + RETRY_SECONDS:
            raise StateUnavailable
        try:
            async with asyncio.timeout(DEADLINE):
                answer = await asyncio.get_running_loop().run_in_executor(self._threads, question)
        except (StateUnavailable, TimeoutError) as error:
            self.failures += 1
            if self._failed_at is None:
                why = str(error) or "no answer"
                write(f"{timestamp()} state store: {why}; its API keys are refused, and each server counts for itself")
            self._failed_at = time.monotonic()
            raise StateUnavailable from None
        if self._failed_at is not None:
            self._failed_at = None
            write(f"{timestamp()} state store: works again")
        return answer
