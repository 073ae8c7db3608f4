"""S23: models of the hub, from a server on this machine that speaks its API."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from interchange.hub_server import Hub, Repository, files_of, serving

import regard
from regard.errors import UserError
from regard.find_model import find_model
from regard.imported_models import HubName, hub_name, imported_models, read_origin
from regard.interchange import hub as client
from regard.interchange.sources import import_model
from regard.loading import load
from regard.serving.catalogue import read_catalogue
from regard.studio.models import collect

pytest.importorskip("huggingface_hub")
from huggingface_hub import constants, file_download

NAME = "maker/tiny-de-en"
SOURCE = f"hf:{NAME}"
PLAIN = "maker--tiny-de-en"
UNREAD = {"README.md": b"# A model", "tf_model.h5": b"t" * 1000, "onnx/model.onnx": b"o" * 1000, "run.py": b"raise"}


@pytest.fixture
def hub(foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving() as found:
        found.repositories[NAME] = Repository(files_of(foreign) | UNREAD)
        monkeypatch.setenv("HF_ENDPOINT", found.address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))  # of child processes
        for constant, value in {
            "HF_HUB_CACHE": str(tmp_path / "hf" / "hub"),
            "AGENT_HARNESSES_PATH": str(tmp_path / "hf" / "agents.json"),
            "HF_HUB_OFFLINE": False,
            "DOWNLOAD_CHUNK_SIZE": 4096,
        }.items():
            monkeypatch.setattr(constants, constant, value)
        waiting = SimpleNamespace(sleep=lambda seconds: None, time=lambda: 0.0)
        monkeypatch.setattr(file_download, "time", waiting)  # between attempts
        yield found


def refusal(action: Callable[[], object]) -> str:
    with pytest.raises(UserError) as refused:
        action()
    message = str(refused.value)
    assert "\n" not in message and len(message) < 400, message
    return message


def left_behind(cache: Path) -> list[str]:
    """What is in the folder of imported models, besides models and the locks' folder."""
    names = {path.name for path in (cache / "imported").iterdir()} if (cache / "imported").exists() else set()
    return sorted(names - {".locks", *imported_models()})


def answers(folder: str | Path) -> list[str]:
    return [one.text for one in load(folder, "cpu").translate(["das Haus", "wo ist er?"], beam=1, max_length=8)]


def test_a_model_is_imported_once_from_the_files_that_are_needed(hub: Hub, ours: Path, own_cache: Path) -> None:
    said: list[str] = []
    folder = import_model(SOURCE, note=said.append)
    assert folder == own_cache / "imported" / PLAIN
    assert answers(folder) == answers(ours)
    commit = hub.repositories[NAME].commit
    assert not any(hub.asked(name) for name in UNREAD)
    assert len(hub.asked("GET /storage")) == 2 and len(hub.asked("/api/models/")) == 1
    assert all(commit in request for request in hub.asked("/resolve/")), "one commit, whatever happens meanwhile"
    origin = read_origin(folder)
    assert (origin.source, origin.revision, origin.licence) == (SOURCE, commit, "apache-2.0")
    assert f"{SOURCE}, revision {commit}" in (folder / "card.md").read_text()
    assert "licence: apache-2.0" in said[0] and "4 files" in said[0]
    assert left_behind(own_cache) == []
    hub.requests.clear()
    assert find_model(SOURCE) == find_model(PLAIN) == import_model(SOURCE) == folder
    assert hub.requests == []


def test_files_are_regular_and_the_card_may_be_edited(hub: Hub) -> None:
    folder = import_model(SOURCE)
    assert not any(path.is_symlink() for path in folder.iterdir())
    (folder / "card.md").write_text("# Mine")
    assert answers(folder)


def test_a_revision_has_a_name_of_its_own(hub: Hub) -> None:
    hub.repositories[NAME].revisions = ("main", "v1.0")
    folder = import_model(f"{SOURCE}@v1.0")
    assert folder.name == f"{PLAIN}@v1.0" and hub.asked(f"/api/models/{NAME}/revision/v1.0")
    assert import_model(SOURCE).name == PLAIN
    assert sorted(imported_models()) == [PLAIN, f"{PLAIN}@v1.0"]


def test_a_cut_download_goes_on_where_it_stopped(hub: Hub, ours: Path) -> None:
    size = len(hub.repositories[NAME].files["model.bin"])
    assert size > 20_000
    hub.cuts = [10**9, 9_000, 9_000]  # the tokenizer first
    assert answers(import_model(SOURCE)) == answers(ours)
    ranges = [request.partition("bytes=")[2] for request in hub.asked("GET /storage")[1:]]
    assert ranges[0] == "" and [int(one.rstrip("-")) for one in ranges[1:]] == [8192, 16384]


def test_a_download_that_is_cut_again_and_again(hub: Hub, own_cache: Path) -> None:
    hub.cuts = [0] * 50
    assert "cannot be downloaded" in refusal(lambda: import_model(SOURCE))
    assert left_behind(own_cache) == [] and imported_models() == {}
    hub.cuts.clear()
    assert import_model(SOURCE).is_dir()


@pytest.mark.parametrize("name", ["model.bin", "config.json"])
@pytest.mark.parametrize("change", [lambda c: bytes([c[0] ^ 1]) + c[1:], lambda c: c[:-1], lambda c: c + b" "])
def test_a_file_with_another_hash_is_refused(hub: Hub, own_cache: Path, name: str, change: Callable) -> None:
    hub.changed[name] = change(hub.repositories[NAME].files[name])
    message = refusal(lambda: import_model(SOURCE))
    assert "not what the hub says it is" in message or "should be of size" in message
    assert left_behind(own_cache) == [] and imported_models() == {}
    hub.changed.clear()
    assert import_model(SOURCE).is_dir(), "the wrong one is not kept"


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (401, "RepoNotFound", "no such model, or it is private"),
        (401, "", "refuses access (401)"),
        (401, "GatedRepo", "its owner decides who may have it"),
        (403, "", "refuses access (403)"),
        (404, "RepoNotFound", "no such model, or it is private"),
        (404, "", "answers 404"),
        (503, "", "answers 503"),
    ],
)
def test_refusals_of_the_hub(hub: Hub, own_cache: Path, status: int, error: str, words: str) -> None:
    hub.repositories[NAME].status, hub.repositories[NAME].error = status, error
    message = refusal(lambda: import_model(SOURCE))
    assert words in message and message.startswith(SOURCE)
    assert left_behind(own_cache) == []


def test_what_the_hub_does_not_have(hub: Hub) -> None:
    assert "no such model" in refusal(lambda: import_model("hf:maker/other"))
    assert "no revision 'v2'" in refusal(lambda: import_model(f"{SOURCE}@v2"))
    hub.repositories[NAME].files = UNREAD
    assert "holds no model that can be imported" in refusal(lambda: import_model(SOURCE))


def test_damaged_files_are_named_as_the_user_named_the_model(hub: Hub, own_cache: Path) -> None:
    hub.repositories[NAME].files["config.json"] = b"{"
    assert refusal(lambda: import_model(SOURCE)).startswith(f"{SOURCE}: config.json: not valid JSON")
    hub.repositories[NAME].files["config.json"] = b"{}"
    hub.repositories[NAME].files["model.bin"] = b"x"
    assert refusal(lambda: import_model(SOURCE)).startswith(f"{SOURCE}: model.bin: ")
    assert left_behind(own_cache) == []


def test_sizes_are_checked_before_anything_is_downloaded(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SMALL_LIMIT", 100)
    assert "0.0 MB are the most" in refusal(lambda: import_model(SOURCE))
    monkeypatch.setattr(client, "SMALL_LIMIT", 10**6)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=1000))
    assert "make room" in refusal(lambda: import_model(SOURCE))
    assert not hub.asked("/resolve/")


def test_offline_with_a_filled_cache(hub: Hub, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    folder = import_model(SOURCE)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.requests.clear()
    assert find_model(SOURCE) == import_model(SOURCE) == folder
    assert "HF_HUB_OFFLINE" in refusal(lambda: import_model("hf:maker/other"))
    assert "HF_HUB_OFFLINE" in refusal(lambda: import_model(f"{SOURCE}@v9"))
    assert hub.requests == []


def test_the_library_s_own_cache_is_enough(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same files, downloaded by another program or before the imported model was removed."""
    commit = read_origin(import_model(SOURCE)).revision
    file_download.hf_hub_download(NAME, "config.json", endpoint=hub.address)  # notes which commit `main` is
    shutil.rmtree(imported_models()[PLAIN])
    hub.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert read_origin(import_model(SOURCE)).revision == commit
    assert hub.requests == []
    shutil.rmtree(imported_models()[PLAIN])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens
    said: list[str] = []
    assert read_origin(import_model(SOURCE, note=said.append)).revision == commit
    assert "cannot be reached" in said[0]
    blob = next(Path(constants.HF_HUB_CACHE).glob("*/snapshots/*/model.bin")).resolve()
    blob.write_bytes(b"x" + blob.read_bytes()[1:])
    shutil.rmtree(imported_models()[PLAIN])
    assert refusal(lambda: import_model(SOURCE))
    assert imported_models() == {}


def test_no_network_and_no_copy(hub: Hub, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert refusal(lambda: import_model(SOURCE)).startswith(f"{SOURCE}: cannot be downloaded")
    assert left_behind(own_cache) == []


def test_several_at_once_download_once(hub: Hub, own_cache: Path) -> None:
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(import_model(SOURCE))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [own_cache / "imported" / PLAIN] * 4
    assert len(hub.asked("GET /storage")) == 2 and left_behind(own_cache) == []


def test_commands_import_on_first_use(hub: Hub, run_regard: Callable[..., tuple[str, str]], tmp_path: Path) -> None:
    out, err = run_regard("translate", "--model", SOURCE, "--max-length", 8, "das Haus")
    assert out.count("\n") == 1 and f"downloading {SOURCE}" in err
    again, err = run_regard("translate", "--model", PLAIN, "--max-length", 8, "das Haus")
    assert again == out and err == ""
    assert run_regard("models", SOURCE) == run_regard("models", PLAIN)
    assert run_regard("models", "remove", SOURCE)[0].startswith(f"removed {PLAIN} ")
    assert f"downloading {SOURCE}" not in run_regard("inspect", PLAIN, "das Haus", code=2)[1]
    _, err = run_regard("translate", "--model", "hf:maker/other", "x", code=2)
    assert err.count("\n") == 1 and "no such model" in err


def test_a_server_imports_before_its_workers_start(hub: Hub) -> None:
    catalogue = read_catalogue([SOURCE])
    assert list(catalogue.models) == [PLAIN] and catalogue.route("de", "en")
    assert list(read_catalogue([PLAIN]).models) == [PLAIN]
    assert read_catalogue([f"nl-en={SOURCE}"]).route("nl", "en")
    assert list(collect([SOURCE], shipped=False).catalogue.models) == [PLAIN], "the studio likewise"


def test_loading_by_name(hub: Hub) -> None:
    import_model(SOURCE)
    assert [one.text for one in regard.load(SOURCE, "cpu").translate(["das Haus"], beam=1, max_length=8)]


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert refusal(lambda: import_model(SOURCE)).endswith("run: pip install 'regard[hub]'")


@pytest.mark.parametrize(
    ("licence", "shown"),
    [
        (None, ""),
        (["mit", "cc-by-4.0"], "mit, cc-by-4.0"),
        ("two\nlines\x1b[2J", "two lines\\x1b[2J"),
        ("x" * 999, "x" * 100),
    ],
)
def test_a_licence_may_say_anything(hub: Hub, licence: Any, shown: str) -> None:
    hub.repositories[NAME].licence = licence
    folder = import_model(SOURCE)
    assert read_origin(folder).licence == shown and json.loads((folder / "origin.json").read_bytes())


def test_which_files_are_needed() -> None:
    both = [
        "config.json",
        "vocab.json",
        "model.safetensors",
        "pytorch_model.bin",
        "flax_model.msgpack",
        "x/config.json",
    ]
    assert client.needed(both) == ["config.json", "vocab.json", "model.safetensors"]
    assert client.needed(["config.json", "pytorch_model.bin"])[-1] == "pytorch_model.bin"
    shards = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    index = "model.safetensors.index.json"
    assert client.needed([*shards, index, "../model-00001-of-00002.safetensors", "pytorch_model.bin"]) == [
        index,
        *shards,
    ]
    assert client.needed(["model.bin", "shared_vocabulary.txt"]) == ["shared_vocabulary.txt", "model.bin"]
    assert client.needed(["config.json", "README.md"]) == []


def test_names_of_the_hub() -> None:
    assert hub_name("hf:t5-base") == HubName("t5-base", "")
    assert hub_name("hf:a/b@refs/pr/1").plain == "a--b@refs--pr--1"
    for wrong in (
        "hf:",
        "hf:a/b/c",
        "hf:../x",
        "hf:a/..",
        "hf:a--b/c",
        "hf:a b",
        "hf:a/b@",
        "hf:a@..",
        "hf:/a",
        "hf:a/b@x\ny",
        "hf:" + "a" * 500,
    ):
        message = refusal(lambda wrong=wrong: hub_name(wrong))
        assert "write hf:NAME" in message
