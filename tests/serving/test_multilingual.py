"""A server with a real model of several languages: what it answers is what the model says for that direction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving.calling import calling
from serving.multilingual import LANGUAGES, write_multilingual
from serving.running import running_server

import regard
from regard.client import Client
from regard.errors import UserError
from regard.serving.catalogue import Catalogue, read_catalogue
from regard.serving.http.app import make_app
from regard.serving.settings import Settings
from regard.serving.workers.job_queue import Job
from regard.serving.workers.worker_pool import WorkerPool

GERMAN, ENGLISH = "ich bin ein student .", "where is the station ?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_multilingual(tmp_path_factory.mktemp("models") / "babel")


def served(folder: Path, ask: Callable[[Any, WorkerPool], Any], **settings: Any) -> Any:
    """What `ask(app, pool)` returns, with a server of this model in a worker process."""
    chosen = Settings(workers=1, device="cpu", precision="float32", engine="torch", **settings)
    known: Catalogue = read_catalogue([str(folder)])

    async def run() -> Any:
        pool = WorkerPool(chosen, known)
        app = make_app(chosen, known, pool, log_requests=False)
        await pool.start()
        try:
            return await ask(app, pool)
        finally:
            await pool.close()

    return asyncio.run(run())


def test_every_direction_is_the_models_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many requests at once: a batch must never join sentences of two directions."""
    model = regard.load(folder, device="cpu", precision="float32", engine="torch")
    pairs = [(source, target) for source in LANGUAGES for target in LANGUAGES if source != target]
    expected = {pair: model.translate(GERMAN, source=pair[0], target=pair[1]).text for pair in pairs}
    assert len(set(expected.values())) > 1, "the model must heed the tag for this test to mean anything"
    sent: list[list[Job]] = []
    send = WorkerPool._send_batch

    def noted(pool: WorkerPool) -> None:
        send(pool)
        sent.append(list(pool.workers[0].jobs))

    monkeypatch.setattr(WorkerPool, "_send_batch", noted)

    async def ask(app: Any, pool: WorkerPool) -> list[Any]:
        again = [*pairs, *pairs]
        replies = await asyncio.gather(
            *(calling(app, "POST", "/translate", q=GERMAN, source=source, target=target) for source, target in again)
        )
        details = await calling(
            app, "POST", "/api/translate", text=[GERMAN], model={"source": "de", "target": "fr"}, alignment=True
        )
        long = await calling(app, "POST", "/translate", q=" ".join([GERMAN] * 60), source="de", target="fr")
        auto = await calling(app, "POST", "/translate", q="Wo ist bitte der Bahnhof?", source="auto", target="fr")
        lacking = await calling(app, "POST", "/translate", q=GERMAN, source="de", target="it")
        return [[reply.json() for reply in replies], details, long, auto, lacking]

    replies, details, long, auto, lacking = served(folder, ask, translation_cache=100)
    assert [reply["translatedText"] for reply in replies] == [expected[pair] for pair in [*pairs, *pairs]]
    options = [{(job.batch_key[2].source, job.batch_key[2].target) for job in batch} for batch in sent[: len(pairs)]]
    assert all(len(each) == 1 for each in options)
    answer = details.json()["answers"][0]
    (own,) = model.translate([GERMAN], source="de", target="fr", alignment=True)
    assert answer["text"] == own.text and [tuple(link) for link in answer["alignment"]] == own.alignment
    assert long.status == 200 and long.json()["translatedText"]
    assert auto.json()["detectedLanguage"]["language"] == "de"
    assert lacking.json() == {"error": "it is not supported"}


def test_the_client_gets_what_a_chain_says_here(folder: Path, tmp_path: Path) -> None:
    """Of two models on a real server, one after the other, and of one with its direction; text by text."""
    other = write_multilingual(tmp_path / "other", seed=5)
    options = ["--workers", "1", "--device", "cpu", "--engine", "torch", "--precision", "float32", "--threads", "1"]
    first, second = (regard.load(each, device="cpu", precision="float32", engine="torch") for each in (folder, other))
    texts = [GERMAN, ENGLISH]
    # As served: the first model only from German to English, the second only from English to French.
    middles = first.translate(texts, source="de", target="en")
    ends = second.translate([one.text for one in middles], source="en", target="fr")
    with running_server("--model", f"de-en={folder}", "--model", f"en-fr={other}", *options) as server:
        assert "loading babel (2 languages), other (2 languages) ..." in "\n".join(server.said)
        client = Client(server)
        assert [one.text for one in client.translate(texts, "de", "fr")] == [one.text for one in ends]
        details = client.translate_in_detail(texts, "de", "fr", n_best=2)
        assert [one.alternatives[0].text for one in details][0] and [one.text for one in details] == [
            one.text for one in ends
        ]
        assert [one.score for one in details] == pytest.approx([one.score for one in ends], abs=1e-4)
        assert [one.text for one in client.translate(texts, "deu_Latn", "en")] == [one.text for one in middles]
        with pytest.raises(UserError, match="no model of this server translates from fr to de"):
            client.translate(texts, "fr", "de")
        client.close()
