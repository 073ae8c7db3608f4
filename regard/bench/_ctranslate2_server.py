"""The peer of our server: a plain FastAPI handler around CTranslate2, with the same batching as ours.

`python -m regard.bench._ctranslate2_server FOLDER` serves a folder of `regard export --format ctranslate2` and prints
its port. Sentences of all requests share a queue; one worker per core takes its share of what arrived within the same
wait as in our pool, with the same maximum batch.
"""

import asyncio
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from regard.bench._ctranslate2 import cores
from regard.serving.workers.worker_pool import BATCH_MAX_WAIT, BATCH_QUIET_SECONDS, CPU_BATCH

Waiting = tuple[str, float, asyncio.Future[str]]


class Batcher:
    """Translates sentences in batches with others that wait."""

    def __init__(self, folder: str, beam: int, length_penalty: float):
        import ctranslate2
        import sentencepiece

        self.count = cores()
        self.idle = 0
        self._translator = ctranslate2.Translator(folder, inter_threads=self.count, intra_threads=1)
        self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder, "tokenizer.model")))
        self._search = {"beam_size": beam, "length_penalty": length_penalty, "max_batch_size": CPU_BATCH[0]}
        self._threads = ThreadPoolExecutor(self.count)
        self._waiting: list[Waiting] = []
        self._arrived = asyncio.Event()
        self._last = 0.0

    async def translate(self, text: str) -> str:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._last = time.monotonic()
        self._waiting.append((text, self._last, future))
        self._arrived.set()
        return await future

    async def work(self) -> None:
        """The loop of one worker."""
        while True:
            self.idle += 1
            batch = await self._next()
            self.idle -= 1
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._threads, self._translate, [text for text, _, _ in batch])
            for (_, _, future), text in zip(batch, found, strict=True):
                if not future.done():
                    future.set_result(text)

    async def _next(self) -> list[Waiting]:
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            wait = min(self._last + BATCH_QUIET_SECONDS, self._waiting[0][1] + BATCH_MAX_WAIT) - time.monotonic()
            if wait <= 0 or len(self._waiting) >= CPU_BATCH[0] * self.idle:
                break
            await asyncio.sleep(wait)
        share = min(CPU_BATCH[0], -(-len(self._waiting) // self.idle))
        batch, self._waiting = self._waiting[:share], self._waiting[share:]
        return batch

    def _translate(self, texts: list[str]) -> list[str]:
        found = self._translator.translate_batch(self._pieces.encode(texts, out_type=str), **self._search)
        return self._pieces.decode([result.hypotheses[0] for result in found])


def main(folder: str) -> None:
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Request(BaseModel):
        q: str
        source: str
        target: str

    app = FastAPI()

    async def run() -> None:
        batcher = Batcher(folder, beam=4, length_penalty=0.6)
        workers = [asyncio.create_task(batcher.work()) for _ in range(batcher.count)]

        @app.post("/translate")
        async def translate(request: Request) -> dict[str, str]:
            return {"translatedText": await batcher.translate(request.q)}

        with socket.create_server(("127.0.0.1", 0)) as listening:
            print(listening.getsockname()[1], flush=True)
            await uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).serve([listening])
        for worker in workers:
            worker.cancel()

    asyncio.run(run())


if __name__ == "__main__":
    main(sys.argv[1])
