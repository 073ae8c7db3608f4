"""A worker pool whose workers are scripted (scripted_worker.py): nothing to load, and they do what a text tells them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from regard.serving.catalogue import Catalogue, ServedModel
from regard.serving.settings import Settings
from regard.serving.workers.translation_result import SearchOptions
from regard.serving.workers.worker_pool import WorkerPool

SCRIPT = Path(__file__).with_name("scripted_worker.py")
COMMAND = (sys.executable, str(SCRIPT))
"""In place of worker_process.COMMAND."""


class ScriptedPool(WorkerPool):
    said: list[str]
    """What it logged."""


@asynccontextmanager
async def running(
    *models: str, optional: bool = False, folder: Path = SCRIPT, beam: int = 1, **settings: Any
) -> AsyncIterator[ScriptedPool]:
    """A pool with one worker, unless the settings say otherwise."""
    names = models or ("m",)
    served = [ServedModel(name, folder, "translate", "fr", "en", beam=beam, optional=optional) for name in names]
    said: list[str] = []
    pool = ScriptedPool(Settings(**{"workers": 1, **settings}), Catalogue(served), said.append)
    pool.said = said
    await pool.start()
    try:
        yield pool
    finally:
        await pool.close()


def within(seconds: float, test: Callable[[], Awaitable[None]]) -> None:
    """Runs a test that must end in time."""

    async def limited() -> None:
        async with asyncio.timeout(seconds):
            await test()

    asyncio.run(limited())


async def said(pool: WorkerPool, *texts: str) -> list[str]:
    """The translations of texts by the model `m`."""
    return [one.text for one in await pool.translate("m", texts, SearchOptions())]
