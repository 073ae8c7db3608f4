"""The server with a translator on a CPU: computed by CTranslate2, without torch in any process until it is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import psutil
import pytest
from serving.running import Running, running_server

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    cache = str(tmp_path_factory.mktemp("cache"))
    with running_server("--workers", "1", "--device", "cpu", env={"REGARD_CACHE": cache}) as running:
        yield running


def ask(server: str, path: str, **body: Any) -> dict[str, Any]:
    request = Request(server + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with build_opener(ProxyHandler({})).open(request, timeout=120) as answer:
        return json.load(answer)


def with_torch(server: Running) -> list[bool]:
    """Of the server and of its worker: whether torch is loaded."""
    first = psutil.Process(server.process.pid)
    found = [first, *first.children(recursive=True)]
    return ["libtorch" in Path(f"/proc/{process.pid}/maps").read_text() for process in found]


def test_no_process_loads_torch_until_attention_weights_are_asked_for(server: Running) -> None:
    sentence = "Je suis étudiant."
    plain = ask(server, "/translate", q=sentence, source="fr", target="en")["translatedText"]
    marked = ask(server, "/translate", q="Le <b>chat</b> dort.", source="auto", target="en", format="html")
    assert marked["translatedText"] == "The <b>cat</b> is sleeping."
    (kept,) = ask(server, "/translate", q=["Voir https://example.org/a?b=c !"], source="fr", target="en")[
        "translatedText"
    ]
    assert "https://example.org/a?b=c" in kept
    (found,) = ask(server, "/api/translate", text=sentence, alignment=True, n_best=2)["answers"]
    assert found["text"] == plain and [2, 2] in found["alignment"] and len(found["alternatives"]) == 1
    assert with_torch(server) == [False, False]
    (worker,) = psutil.Process(server.process.pid).children()
    assert worker.memory_info().rss < 160e6

    (seen,) = ask(server, "/api/translate", text=sentence, attention=True)["answers"]
    assert seen["text"] == plain and seen["attention"]["source"] == sentence.split()
    assert [len(row) for row in seen["attention"]["weights"]] == [3, 3, 3]
    assert with_torch(server) == [False, True]
    assert ask(server, "/translate", q=sentence, source="fr", target="en")["translatedText"] == plain


def test_torch_can_be_chosen() -> None:
    with running_server("--workers", "1", "--device", "cpu", "--engine", "torch") as other:
        assert with_torch(other) == [False, True]
        assert ask(other, "/translate", q="Le chat dort.", source="fr", target="en") == {
            "translatedText": "The cat is sleeping."
        }
