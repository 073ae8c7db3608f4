"""The HTTP client: request sizes, retries, and error messages.

The server is a stand-in that upper-cases texts and misbehaves when told to; the real one is in serving/test_clients.py.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from regard import client as module
from regard.cli.remote_translation import languages_of
from regard.client import Client, ServerTranslation
from regard.errors import UserError

Answer = tuple[int, dict[str, str], bytes]


class StandIn(ThreadingHTTPServer):
    """Answers /translate and /api/translate in upper case. `script` holds responses to send first, in order."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.connections = 0
        self.script: list[Answer | None] = []
        self.most_texts = 10**9
        self.ours = True
        self.closing = False
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: StandIn
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        tree = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, tree, dict(self.headers)))
        if self.server.script:
            scripted = self.server.script.pop(0)
            if scripted is None:  # a connection that is lost
                self.close_connection = True
                return
            return self.reply(*scripted)
        texts = tree["q"] if "q" in tree else tree["text"]
        if self.path.endswith("/api/translate") and not self.server.ours:
            return self.reply(404, {}, b"<html>")
        if len(texts) > self.server.most_texts:
            said = f"Invalid request: request ({len(texts)}) exceeds text limit ({self.server.most_texts})"
            return self.reply(400, {}, json.dumps({"error": said}).encode())
        if self.path.endswith("/api/translate"):
            found = [self.detail(text, tree) for text in texts]
            return self.reply(200, {}, json.dumps({"answers": found}).encode())
        self.reply(200, {}, json.dumps({"translatedText": [text.upper() for text in texts]}).encode())

    def detail(self, text: str, tree: dict[str, Any]) -> dict[str, Any]:
        alone = {"text": text.upper(), "score": -0.5, "log_probability": -1.5, "tokens": text.split(), "finished": True}
        alone["alignment"] = [[0, 0]] if tree.get("alignment") else None
        return {**alone, "alternatives": [{**alone, "text": f"{n}"} for n in range(1, tree.get("n_best", 1))]}

    def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        if self.server.closing:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setattr(time, "sleep", lambda seconds: slept.append(seconds))
    slept.clear()
    with StandIn() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


slept: list[float] = []


def texts(found: list[ServerTranslation]) -> list[str]:
    return [one.text for one in found]


def test_a_line_for_a_line_and_empty_ones_are_not_sent(stand_in):
    progress: list[int] = []
    lines = ["un", "", "deux", "  ", "\t", "trois"]
    found = Client(stand_in.url).translate(lines, "fr", "en", progress.append)
    assert texts(found) == ["UN", "", "DEUX", "", "", "TROIS"] and [one.source for one in found] == lines
    ((path, tree, headers),) = stand_in.requests
    assert path == "/api/translate"
    assert tree == {"model": {"source": "fr", "target": "en"}, "text": ["un", "deux", "trois"]}
    assert headers["Content-Type"] == "application/json" and "Authorization" not in headers
    assert sum(progress) == len(lines)
    assert texts(Client(stand_in.url).translate(["", " "], "fr", "en")) == ["", ""] and len(stand_in.requests) == 1


def test_many_lines_go_in_portions_over_one_connection(stand_in, monkeypatch):
    monkeypatch.setattr(module, "MAX_LINES", 100)
    lines = [f"ligne {n}" for n in range(1234)]
    client = Client(stand_in.url)
    assert texts(client.translate(lines, "fr", "en")) == [line.upper() for line in lines]
    sizes = [len(tree["text"]) for _, tree, _ in stand_in.requests]
    assert sizes == [100] * 12 + [34] and stand_in.connections == 1
    stand_in.requests.clear()
    long = ["x" * 20_000] * 5
    assert texts(client.translate(long, "fr", "en")) == [line.upper() for line in long]
    assert [len(tree["text"]) for _, tree, _ in stand_in.requests] == [2, 2, 1]


def test_a_server_that_takes_less_gets_less_from_then_on(stand_in):
    stand_in.most_texts = 30
    lines = [f"ligne {n}" for n in range(200)]
    assert texts(Client(stand_in.url).translate(lines, "fr", "en")) == [line.upper() for line in lines]
    sizes = [len(tree["text"]) for _, tree, _ in stand_in.requests]
    assert sizes == [200, 100, 50] + [25] * 8
    stand_in.most_texts = 0
    with pytest.raises(UserError, match=r"refuses a line that is too long: .*exceeds text limit \(0\)"):
        Client(stand_in.url).translate(["un"], "fr", "en")


def test_details_go_through_our_own_interface(stand_in):
    (found,) = Client(stand_in.url, "s3cret").translate_in_detail(["un mot"], "fr", "en", n_best=3, alignment=True)
    path, tree, headers = stand_in.requests[0]
    assert path == "/api/translate" and tree["n_best"] == 3 and headers["Authorization"] == "Bearer s3cret"
    assert (found.source, found.text, found.score, found.tokens) == ("un mot", "UN MOT", -0.5, ["un", "mot"])
    assert found.alignment == [(0, 0)] and texts(found.alternatives) == ["1", "2"]


def test_a_libretranslate_server_will_do_for_plain_text(stand_in):
    stand_in.ours = False
    client = Client(stand_in.url)
    assert texts(client.translate(["un", "deux"], "fr", "en")) == ["UN", "DEUX"]
    assert texts(client.translate(["trois"], "fr", "en")) == ["TROIS"]
    assert [path for path, _, _ in stand_in.requests] == ["/api/translate", "/translate", "/translate"]
    assert stand_in.requests[1][1] == {"q": ["un", "deux"], "source": "fr", "target": "en", "format": "text"}
    with pytest.raises(UserError, match="has no /api/translate: it is another kind of server"):
        client.translate_in_detail(["un"], "fr", "en")
    with pytest.raises(UserError, match="give --from"):
        client.translate_in_detail(["un"], "auto", "en")


def test_the_key_goes_where_libretranslate_wants_it(stand_in):
    Client(f"{stand_in.url}/below/", "s3cret").translate(["un"], "auto", "en")
    path, tree, _ = stand_in.requests[0]
    assert path == "/below/translate" and tree["api_key"] == "s3cret" and tree["source"] == "auto"


def test_a_busy_server_is_asked_again_when_it_says(stand_in):
    busy = json.dumps({"error": "Slowdown"}).encode()
    said: list[str] = []
    stand_in.script = [(503, {"Retry-After": "7"}, busy), (429, {"Retry-After": "4000"}, busy), (429, {}, busy)]
    assert texts(Client(stand_in.url, note=said.append).translate(["un"], "fr", "en")) == ["UN"]
    assert slept == [7.0, module.MAX_WAIT, 4.0] and len(said) == 1 and "busy" in said[0]
    stand_in.script = [(429, {"Retry-After": "1"}, busy)] * 100
    with pytest.raises(UserError, match="refuses: Slowdown"):
        Client(stand_in.url).translate(["un"], "fr", "en")
    assert 100 - len(stand_in.script) == module.MAX_TRIES


def test_a_kept_connection_that_was_closed_is_opened_again(stand_in):
    client = Client(stand_in.url)
    client.translate(["un"], "fr", "en")
    stand_in.script = [None]
    assert texts(client.translate(["deux"], "fr", "en")) == ["DEUX"] and stand_in.connections == 2
    with pytest.raises(UserError, match="closed the connection without a response"):
        stand_in.script = [None]
        Client(stand_in.url).translate(["un"], "fr", "en")
    stand_in.closing = True
    client.translate(["un"], "fr", "en")
    assert texts(client.translate(["deux"], "fr", "en")) == ["DEUX"]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, {"error": "zz is not supported"}, "refuses: zz is not supported"),
        (400, {"error": "Please contact the server operator to get an API key"}, "set REGARD_API_KEY"),
        (403, {"error": "Invalid API key"}, "requires a valid API key: Invalid API key; set REGARD_API_KEY"),
        (404, {"detail": "?"}, "has no /translate: it is another kind of server, or the URL lacks a prefix"),
        (301, {}, "has moved"),
        (500, ["?"], "refuses: status 500"),
        (200, {"translatedText": "one text"}, "did not return one translation per text (1 expected)"),
        (200, {"translatedText": ["a", "b"]}, "did not return one translation per text"),
        (200, ["a"], "did not return one translation per text"),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_a_refusal_is_one_line(stand_in, status, body, message):
    stand_in.script = [(status, {}, json.dumps(body).encode())]
    with pytest.raises(UserError) as refused:
        Client(stand_in.url, "s3cret").translate(["un"], "auto", "en")
    said = str(refused.value)
    assert message in said and "\n" not in said and "s3cret" not in said


def test_what_is_no_json_is_said_too(stand_in):
    for status, message in ((200, "did not return one translation per text"), (502, "status 502")):
        stand_in.script = [(status, {}, b"<html>")]
        with pytest.raises(UserError, match=message):
            Client(stand_in.url).translate(["un"], "auto", "en")
    stand_in.script = [(200, {}, b'{"answers": [{"text": "no score"}]}')]
    with pytest.raises(UserError, match="response is incomplete"):
        Client(stand_in.url).translate_in_detail(["un"], "fr", "en")


def test_where_nobody_listens():
    with StandIn() as server:
        url = server.url
    with pytest.raises(UserError, match=f"no server is listening at {url}; start one with: regard serve"):
        Client(url).translate(["un"], "fr", "en")


def test_a_server_that_does_not_answer_is_given_up(stand_in):
    silent = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)  # accepts nothing
    begin = time.monotonic()
    with silent, pytest.raises(UserError, match="did not answer within 0.3 s"):
        Client(f"127.0.0.1:{silent.server_address[1]}", timeout=0.3).translate(["un"], "fr", "en")
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://host",
        "http://",
        "http://host:x",
        "http://host:99999",
        "http://me:pw@host",
        "http://h/?q=1",
        "http://h\n",
    ],
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(UserError, match="--server: "):
        Client(url)


def test_proxies_are_for_others(stand_in, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, stand_in.url)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="no server is listening"):
        Client("http://127.0.0.1:9").translate(["un"], "fr", "en")  # the discard port: nobody there, and no proxy asked
    assert not stand_in.requests
    assert texts(Client("http://translate.example:5000/lt").translate(["un"], "fr", "en")) == ["UN"]
    assert stand_in.requests[0][0] == "http://translate.example:5000/lt/api/translate"


DETAIL = b'{"text": "a", "score": 0, "log_probability": 0, "tokens": [], "finished": true, "alternatives": ['


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"answers": ' + b"[" * 100_000,
        b'{"answers": [' + b'{"a":' * 100_000,
        b'{"answers": [' + DETAIL * 300 + b"]}" * 300 + b"]}",
        b'{"answers": [{"text": "a", "score": '
        + b"9" * 400
        + b', "log_probability": 0, "tokens": [], "finished": true}]}',
        b'{"answers": [{"text": ["a"], "score": 0, "log_probability": 0, "tokens": [], "finished": true}]}',
        b'{"answers": [{"text": "a", "score": 0, "log_probability": 0, "tokens": [[[]]], "finished": true}]}',
        b'{"answers": [' + b"[]," * 2_000_000 + b"[]]}",
        b'{"answers": [null]}',
        b"\xff\xfe",
    ],
    ids=range(10),
)
def test_a_hostile_answer_is_one_line(stand_in, body):
    stand_in.script = [(200, {}, body)]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(250)  # so that three hundred alternatives within each other are too many
    try:
        with pytest.raises(UserError) as refused:
            Client(stand_in.url).translate_in_detail(["un"], "fr", "en")
    finally:
        sys.setrecursionlimit(limit)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


@pytest.mark.parametrize("body", [b'{"translatedText": [["a"]]}', b'{"translatedText": [{"a": 1}]}', b"[" * 100_000])
def test_only_text_is_a_translation(stand_in, body):
    stand_in.script = [(200, {}, body)]
    with pytest.raises(
        UserError, match="returned a translation that is not text|did not return one translation per text"
    ):
        Client(stand_in.url).translate(["un"], "auto", "en")


@pytest.mark.parametrize("begin", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_an_answer_that_drips_is_given_up(begin):
    """Every byte arrives within the timeout, but the whole response does not."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(begin)
                for _ in range(400):
                    connection.sendall(b" ")
                    waiting.wait(0.05)

        waiting = threading.Event()
        threading.Thread(target=drip, daemon=True).start()
        began = time.monotonic()
        with pytest.raises(UserError, match="did not answer within 0.5 s"):
            Client(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=0.5).translate(["un"], "auto", "en")
        assert time.monotonic() - began < 10
        waiting.set()


def test_which_languages():
    assert languages_of("fr-en", None, None) == ("fr", "en")
    assert languages_of("runs/mine", "de", "en") == ("de", "en")
    assert languages_of("fr-en", None, "de") == ("auto", "de")
    for arguments, message in (
        (("fr-en", "de", None), "--from needs --to"),
        (("runs/mine", None, None), "give --from"),
    ):
        with pytest.raises(UserError, match=message):
            languages_of(*arguments)


def test_it_imports_nothing_heavy():
    code = "import sys; import regard.cli, regard.client; print({'torch', 'numpy', 'fastapi'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
