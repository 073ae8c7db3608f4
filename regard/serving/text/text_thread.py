"""Text work beside the event loop: long texts are cut and put together in one thread.

One thread, because Python threads take turns: with more of them the event loop would wait for each. Short texts are
worked on at once, so they never queue behind long ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from regard.serving.workers.worker_pool import Busy

SHORT = 2000
"""Characters that take a few milliseconds at most, whatever they are."""
MOST_WAITING = 1_000_000
"""Characters of texts that wait for the thread: some seconds of work. More are refused."""
PACE = 200_000
"""Characters a second, about."""
Result = TypeVar("Result")


class TextThread:
    def __init__(self) -> None:
        self.waiting = 0
        """Characters whose work was asked for and is not finished."""
        self._thread = ThreadPoolExecutor(1, "text")

    def refuse_if_busy(self, size: int) -> None:
        """Raises Busy where so many more characters would wait too long."""
        if size > SHORT and self.waiting and self.waiting + size > MOST_WAITING:
            raise Busy(self.waiting / PACE)

    async def run(self, size: int, work: Callable[[], Result]) -> Result:
        """The result of some work on so many characters. What has not begun is dropped when nobody waits for it."""
        if size <= SHORT:
            return work()
        self.waiting += size
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self.waiting -= size
