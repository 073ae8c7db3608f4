"""The text thread: long texts off the event loop, one at a time, with a bounded queue."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from regard.serving.text.text_thread import MAX_QUEUED, SHORT_TEXT, TextThread
from regard.serving.workers.errors import ServerBusy


def test_short_texts_are_worked_on_at_once_and_long_ones_in_one_thread() -> None:
    async def test() -> None:
        text, here = TextThread(), threading.get_ident()
        assert await text.run(SHORT_TEXT, threading.get_ident) == here
        others = await asyncio.gather(*(text.run(SHORT_TEXT + 1, threading.get_ident) for _ in range(5)))
        assert len(set(others)) == 1 and here not in others

    asyncio.run(test())


def test_the_event_loop_goes_on_meanwhile_and_too_much_is_refused() -> None:
    async def test() -> None:
        text, ran = TextThread(), list[str]()
        text.refuse_if_busy(10 * MAX_QUEUED)  # alone, anything may be done
        working = asyncio.create_task(text.run(MAX_QUEUED, lambda: time.sleep(0.3)))
        waiting = asyncio.create_task(text.run(SHORT_TEXT + 1, lambda: ran.append("in vain")))
        await asyncio.sleep(0.05)
        text.refuse_if_busy(SHORT_TEXT)
        with pytest.raises(ServerBusy):
            text.refuse_if_busy(SHORT_TEXT + 1)
        waiting.cancel()
        await asyncio.gather(working, waiting, return_exceptions=True)
        assert text.waiting == 0
        await text.run(SHORT_TEXT + 1, int)
        assert not ran, "nobody waited for it any more"
        text.refuse_if_busy(MAX_QUEUED)

    asyncio.run(test())
