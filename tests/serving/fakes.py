"""A pool without models that answers at once and predictably, and a catalogue for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from regard.confidence.words import Word, word_spans
from regard.serving.catalogue import Catalogue, ServedModel
from regard.serving.http.app import make_app
from regard.serving.settings import Settings
from regard.serving.workers.statistics import PoolStatistics
from regard.serving.workers.translation_result import SearchOptions, TranslationResult
from regard.serving.workers.worker_pool import WorkerPool

FOLDERS = Path("/srv/models")
"""Does not exist; must never appear in a response."""


def catalogue() -> Catalogue:
    models = [
        ServedModel("fr-en", FOLDERS / "fr-en", "translate", "fr", "en"),
        ServedModel("en-fr", FOLDERS / "en-fr", "translate", "en", "fr"),
        ServedModel("poet", FOLDERS / "poet", "generate"),
        ServedModel("moods", FOLDERS / "moods", "classify"),
    ]
    return Catalogue(models)


class FakePool(WorkerPool):
    """A translation is the sentence in upper case, its n-th alternative the same with `(n)`; other tasks echo.

    `seconds` is the time of every call, `error` makes every call fail. Calls and cancellations are recorded.
    """

    ready = True
    stalled = False
    waiting = 0

    def __init__(self, seconds: float = 0.0, error: Exception | None = None):
        self.seconds, self.error = seconds, error
        self.statistics = PoolStatistics()
        self._workers = []
        self.calls: list[tuple[Any, ...]] = []
        self.owners: list[str] = []
        self.cancelled = 0

    async def start(self) -> None:
        self.ready = True

    async def close(self) -> None:
        self.ready = False

    async def translate(
        self, model: str, sentences: Sequence[str], search: SearchOptions, owner: str = ""
    ) -> list[TranslationResult]:
        self.calls.append((model, list(sentences), search))
        self.owners.append(owner)
        await self._work()
        self.statistics.batch_sent(sentences)
        return [_translated(sentence, search) for sentence in sentences]

    def refuse_if_busy(self, jobs: int = 1) -> None:
        pass

    async def run_task(self, model: str, task: str, request: dict[str, Any], family: str = "tasks") -> dict[str, Any]:
        self.calls.append((model, task, request))
        await self._work()
        return {"model": model, "task": task, "request": request}

    async def stream(self, model: str, task: str, request: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        self.calls.append((model, task, request))
        for number in range(3):
            await self._work()
            yield {"part": number, "request": request}

    async def _work(self) -> None:
        self.waiting += 1
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.waiting -= 1
        if self.error:
            raise self.error


def _translated(sentence: str, search: SearchOptions) -> TranslationResult:
    words, text = sentence.split(), sentence.upper()
    return TranslationResult(
        text=text,
        score=-0.5,
        log_probability=-0.25 * len(words),
        tokens=text.split(),
        finished=True,
        alignment=[(n, n) for n in range(len(words))] if search.alignment else None,
        attention=[[float(n == m) for m in range(len(words))] for n in range(len(words))] if search.attention else None,
        alternatives=[TranslationResult(f"{text} ({n})", score=-0.5 - n) for n in range(1, search.n_best)],
        confidence=1 / len(text) if search.doubt else None,
        words=[Word(*span, 1 / len(text)) for span in word_spans(text)] if search.doubt else None,
    )


def fake_app(pool: FakePool | None = None, models: Catalogue | None = None, **settings: Any) -> Any:
    """The server's app with a pool that answers at once."""
    return make_app(Settings(**settings), models or catalogue(), pool or FakePool(), log_requests=False)
