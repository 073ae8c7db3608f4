"""`regard data`: the list without delay, verified files, mistakes in one line."""

from __future__ import annotations

import hashlib
import http.server
import json
import signal
import subprocess
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from regard.config import shipped_recipes
from regard.data.datasets import DataSet, File

from .conftest import command, environment, imported, regard

CONTENT = b"one\ntwo\n"
TINY = DataSet(
    "multi30k",  # a name that shipped recipes read
    "Tiny",
    "testing",
    "none \x1b[2J",
    "nowhere",
    (File("a.txt", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), url="https://127.0.0.1:9/a.txt"),),
)


@pytest.fixture
def run_data(monkeypatch, run_regard, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setattr("regard.data.datasets.data_sets", lambda: {"multi30k": TINY})
    (tmp_path / "from").mkdir()
    (tmp_path / "from/a.txt").write_bytes(CONTENT)

    return partial(run_regard, "data")


@pytest.mark.parametrize("words", [["data"], ["data", "--help"], ["data", "--format", "json"]], ids=" ".join)
def test_the_list_comes_without_torch(words, tmp_path):
    assert not {"torch", "numpy", "rich"} & imported(*words)[1]


def test_the_list_names_licence_size_and_what_is_there(tmp_path):
    (tmp_path / "data/multi30k").mkdir(parents=True)
    (tmp_path / "data/multi30k/train.en.gz").write_bytes(bytes(562688))
    out = regard("data", cwd=tmp_path, text=True).stdout
    header, *lines = out.splitlines()
    assert header.split() == ["NAME", "SIZE", "THERE", "FOR", "LICENCE"]
    rows = {line.split()[0]: line for line in lines}
    assert "1 of 12" in rows["multi30k"] and "2.6 MB" in rows["multi30k"] and "non-commercial" in rows["multi30k"]
    assert rows["wnut17"].index("CC BY 4.0") == header.index("LICENCE") and " no " in rows["wnut17"]
    found = {one["name"]: one for one in json.loads(regard("data", "--format", "json", cwd=tmp_path, text=True).stdout)}
    assert found.keys() == rows.keys()
    assert found["multi30k"]["there"] == 1 and "train.en.gz" in found["multi30k"]["files"]


def test_get_from_a_folder_and_what_it_is_for(run_data):
    out, err = run_data("get", "multi30k", "--mirror", "from")
    whole, licence, first, *_ = out.splitlines()
    assert (whole, licence) == ("data/multi30k: 1 whole files (1 copied)", "licence: none \\x1b[2J")
    assert "regard train multi30k-en-de" in out and "regard train universal-multi30k" in out
    assert first.startswith("try: regard train ")
    assert err == "" and Path("data/multi30k/a.txt").read_bytes() == CONTENT
    assert "yes" in run_data()[0] and "1 there" in run_data("get", "multi30k")[0]


def test_the_data_folder_may_be_named(run_data, monkeypatch):
    assert (
        "regard train multi30k-en-de --data here"
        in run_data("get", "multi30k", "--mirror", "from", "--data", "here")[0]
    )
    monkeypatch.setenv("REGARD_DATA", "there")
    found = json.loads(run_data("get", "multi30k", "--mirror", "from", "--format", "json")[0])
    assert found == {
        "name": "multi30k",
        "folder": "there/multi30k",
        "files": [{"name": "a.txt", "how": "copied"}],
        "licence": TINY.licence,
        "recipes": [name for name in shipped_recipes() if "multi30k/" in shipped_recipes()[name].read_text()],
    }
    assert Path("here/multi30k/a.txt").exists() and Path("there/multi30k/a.txt").exists() and not Path("data").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["multi30k"], "'multi30k' is nothing to do; write: regard data get multi30k"),
        (["fetch", "multi30k"], "write: regard data get NAME"),
        (["get"], "name the data set to get; `regard data` lists them"),
        (["get", "multi3k"], "no data set 'multi3k'; did you mean 'multi30k'?"),
        (["--mirror", "from"], "name the data set to get"),
        (["get", "multi30k"], "127.0.0.1:9 cannot be reached (Connection refused); put a.txt (of nowhere) into data/multi30k, or give --mirror FOLDER where they are"),
        (["get", "multi30k", "--mirror", "no"], "no: no such folder"),
        (["get", "multi30k", "--mirror", "http://example.org"], "only https is fetched from"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_mistake_is_one_line(run_data, words, message):
    out, err = run_data(*words, code=2)
    assert out == "" and err.startswith("regard: ") and message in err and err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["from"]


def test_ctrl_c_keeps_what_has_arrived(tmp_path):
    content = bytes(1_000_000)

    class Slow(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            for begin in range(0, len(content), 1000):
                self.wfile.write(content[begin : begin + 1000])
                time.sleep(0.05)

        def log_message(self, *words: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    words = ["data", "get", "europarl_en_de_fr", "--mirror", f"http://127.0.0.1:{server.server_port}"]
    working = subprocess.Popen(
        command(*words), env=environment(), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    part = tmp_path / "data/europarl_en_de_fr/.train.en.xz.part"
    end = time.monotonic() + 30
    while not (part.exists() and part.stat().st_size) and time.monotonic() < end:
        time.sleep(0.02)
    working.send_signal(signal.SIGINT)
    out, err = working.communicate(timeout=30)
    server.shutdown()
    assert working.returncode == 130 and out == ""
    assert err == "regard: stopped; what has arrived is kept, and the same command goes on from there\n"
    assert part.stat().st_size > 0
