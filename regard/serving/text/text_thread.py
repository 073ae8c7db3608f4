"""A thread that splits and reassembles long texts, so that they do not block the event loop.

One thread only: Python threads share the interpreter lock, and the event loop would wait for each. Short texts are
processed inline, so they never queue behind long ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from regard.serving.workers.errors import ServerBusy

SHORT_TEXT = 2000
"""Characters that take a few milliseconds at most."""
MAX_QUEUED = 1_000_000
"""Characters waiting for the thread: some seconds of work. Further texts are refused."""
CHARACTERS_PER_SECOND = 200_000
"""Approximate speed of the thread."""
Result = TypeVar("Result")


class TextThread:
    def __init__(self) -> None:
        self.waiting = 0
        """Characters submitted and not finished."""
        self._thread = ThreadPoolExecutor(1, "text")

    def refuse_if_busy(self, size: int) -> None:
        """Raises ServerBusy if this many more characters would wait too long."""
        if size > SHORT_TEXT and self.waiting and self.waiting + size > MAX_QUEUED:
            raise ServerBusy(self.waiting / CHARACTERS_PER_SECOND)

    async def run(self, size: int, work: Callable[[], Result]) -> Result:
        """Runs `work`, which processes `size` characters. If cancelled before it starts, it is dropped."""
        if size <= SHORT_TEXT:
            return work()
        self.waiting += size
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self.waiting -= size
