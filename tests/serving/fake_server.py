"""A server in a separate process with the fake pool of fakes.py: real HTTP, no models.

python fake_server.py '{"port": 0, "api_keys": ["k"]}' [MOST_FILES]; every translation takes FAKE_SECONDS.
"""

import asyncio
import json
import os
import resource
import sys
from collections.abc import Sequence
from typing import Any

from serving.fakes import FakePool, catalogue

from regard.cli.terminal import say
from regard.serving.http import server
from regard.serving.http.app import make_app
from regard.serving.settings import Settings
from regard.serving.workers.errors import JobRefused
from regard.serving.workers.translation_result import SearchOptions, TranslationResult


class FakeServerPool(FakePool):
    """Refuses too many sentences at once, like the real pool."""

    def __init__(self, settings: Settings, *others: Any):
        super().__init__(float(os.environ.get("FAKE_SECONDS", "0")))
        self.broken = asyncio.Event()
        self.limit = settings.queue_limit

    async def translate(
        self, model: str, sentences: Sequence[str], search: SearchOptions, owner: str = ""
    ) -> list[TranslationResult]:
        if len(sentences) > self.limit:
            raise JobRefused(f"The text has {len(sentences)} sentences")
        return await super().translate(model, sentences, search, owner)


if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))
given = {name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(sys.argv[1]).items()}
vars(server)["WorkerPool"] = FakeServerPool
sys.exit(server.listen(Settings(**given), catalogue(), say, make_app))
