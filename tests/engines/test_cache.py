"""R23: whatever becomes of the cache of converted models, every process translates, and rightly."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engines.conftest import LINES as ALL
from engines.conftest import entries, environment

import regard
from regard.engines.ctranslate2 import cache, loading
from regard.loading import load
from regard.locking import hold

LINES = ALL[:3]
FILES = ["model.bin", "config.json", "shared_vocabulary.json", "manifest.json"]


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Grows by one with every conversion."""
    made, convert = [], loading.convert_folder

    def counted(path: Path, *arguments: Any, **options: Any) -> dict[str, bytes]:
        made.append(path)
        return convert(path, *arguments, **options)

    monkeypatch.setattr(loading, "convert_folder", counted)
    return made


def answers(folder: Path) -> list[str]:
    model = regard.load(folder, device="cpu", engine="ctranslate2")
    return [one.text for one in model.translate(LINES, beam=1)]


def test_a_model_is_converted_once(folder, own_cache, conversions, right):
    assert answers(folder) == answers(folder) == right
    assert len(conversions) == 1
    (entry,) = entries(own_cache)
    assert sorted(path.name for path in entry.iterdir()) == sorted(FILES)


# ------------------------------------------------------------------------------------------------------ damage


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").touch()


def replaced_by_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("damage", [cut, emptied, flipped, Path.unlink, replaced_by_a_folder, replaced_by_a_pipe])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_entry_is_made_again(name, damage: Callable, folder, own_cache, conversions, right):
    answers(folder)
    (entry,) = entries(own_cache)
    damage(entry / name)
    assert answers(folder) == right
    assert len(conversions) == 2
    assert answers(folder) == right
    assert len(conversions) == 2  # the new one is used
    assert entries(own_cache) == [entry]
    assert all((entry / file).is_file() for file in FILES)


@pytest.mark.parametrize("kind", ["a file", "an empty folder", "one file more", "one file less in the manifest"])
def test_what_is_no_entry_is_replaced(kind, folder, own_cache, conversions, right):
    answers(folder)
    (entry,) = entries(own_cache)
    if kind == "one file more":  # harms nobody
        (entry / "more").touch()
        assert answers(folder) == right and len(conversions) == 1
        return
    if kind == "one file less in the manifest":
        files = {name: (entry / name).read_bytes() for name in FILES[1:3]}
        shutil.rmtree(entry)
        cache.write_folder(entry, files)
    else:
        shutil.rmtree(entry)
        entry.touch() if kind == "a file" else entry.mkdir()
    assert answers(folder) == right and len(conversions) == 2
    assert answers(folder) == right and len(conversions) == 2
    assert entries(own_cache) == [entry] and (entry / "model.bin").is_file()


def test_an_entry_may_vanish_between_reading_and_loading(folder, own_cache, monkeypatch, right):
    def vanishing(*arguments):
        place, files = cache.converted(*arguments)
        shutil.rmtree(place)
        return place, files

    monkeypatch.setattr(loading, "converted", vanishing)
    assert answers(folder) == right
    assert entries(own_cache) == []


def emptied_folder(own_cache: Path) -> None:
    shutil.rmtree(own_cache / "ctranslate2")


def damaged_model(own_cache: Path) -> None:
    flipped(entries(own_cache)[0] / "model.bin")


def no_folder(own_cache: Path) -> None:
    emptied_folder(own_cache)
    (own_cache / "ctranslate2").touch()


@pytest.mark.parametrize("change", [emptied_folder, damaged_model, no_folder])
def test_alignments_after_the_cache_has_changed(change, folder, own_cache):
    """They need the model once more, for every layer."""
    wanted = load(folder, "cpu").translate(LINES[0], beam=1, alignment=True)
    model = regard.load(folder, device="cpu", engine="ctranslate2")
    change(own_cache)
    found = model.translate(LINES[0], beam=1, alignment=True)
    assert found.text == wanted.text
    assert found.attention == pytest.approx(wanted.attention, abs=1e-3)


def test_alignments_without_a_cache(folder, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    wanted = load(folder, "cpu").translate(LINES[0], beam=1, alignment=True)
    found = regard.load(folder, device="cpu", engine="ctranslate2").translate(LINES[0], beam=1, alignment=True)
    assert found.attention == pytest.approx(wanted.attention, abs=1e-3)


# -------------------------------------------------------------------------------------------- no place to write

TRANSLATES = """
import json, os, resource, sys
exec(sys.argv[1])
from regard.engines import load_with as load
model = load(sys.argv[2], device="cpu", engine="ctranslate2")
print(json.dumps([one.text for one in model.translate(sys.argv[3:], beam=1)]))
"""
DISK_FULL = "resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))"
# Even for root, files then have the permissions that their mode says.
NO_PRIVILEGES = """
import ctypes, struct
ctypes.CDLL(None).capset(struct.pack("<Ii", 0x20080522, 0), bytes(24))
assert not os.access(os.environ["REGARD_CACHE"], os.W_OK)
"""


def child_answers(folder: Path, before: str = "", **more: str) -> list[str]:
    """In a process of its own, which writes nothing to stderr; -X dev would say what is otherwise swallowed."""
    command = [sys.executable, "-X", "dev", "-W", "ignore", "-c", TRANSLATES, before, str(folder), *LINES]
    done = subprocess.run(command, env=environment(**more), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize("limit", [0, 100, 5000])
def test_a_full_disk(limit, folder, own_cache, right):
    assert child_answers(folder, DISK_FULL.format(limit=limit)) == right
    assert entries(own_cache) == []


@pytest.mark.parametrize("operation", ["mkdir", "replace", "rename", "fsync", "open"])
def test_a_disk_that_fails_at_any_operation(operation, folder, own_cache, monkeypatch, right):
    real = getattr(os, operation)
    failed = []

    def failing(path, *arguments, **options):
        if operation == "fsync" or str(path).startswith(str(own_cache)):
            failed.append(path)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, operation, failing)
    assert answers(folder) == right
    assert failed
    monkeypatch.undo()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="drops privileges as Linux has them")
@pytest.mark.parametrize("filled", [False, True])
def test_a_cache_that_cannot_be_written(filled, folder, own_cache, right):
    if filled:
        answers(folder)
    else:
        (own_cache / "ctranslate2").mkdir()
    before = {path: path.stat().st_mtime_ns for path in own_cache.rglob("*")}
    for path in (own_cache, *before):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert child_answers(folder, NO_PRIVILEGES) == right
    finally:
        for path in (own_cache, *before):
            path.chmod(0o755)
    assert set(own_cache.rglob("*")) == before.keys()


@pytest.mark.parametrize(
    "env",
    [
        {"REGARD_CACHE": "{file}"},
        {"REGARD_CACHE": "{file}/below"},
        {"REGARD_CACHE": "/proc/none"},
        {"REGARD_CACHE": "/dev/null"},
        {"REGARD_CACHE": "", "XDG_CACHE_HOME": "{file}"},
        {"REGARD_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "{file}"},
    ],
)
def test_a_cache_that_cannot_be_created(env, folder, tmp_path, right):
    (tmp_path / "file").write_text("mine")
    assert child_answers(folder, **{name: value.format(file=tmp_path / "file") for name, value in env.items()}) == right
    assert [path.name for path in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_text() == "mine"


def test_a_user_without_a_home(folder, monkeypatch, conversions, right):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("REGARD_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert answers(folder) == answers(folder) == right
    assert len(conversions) == 2


def test_no_line_is_written_unless_asked(folder, tmp_path, monkeypatch, run_regard):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    out, err = run_regard("translate", "-m", folder, *LINES)
    assert out.count("\n") == len(LINES) and err == ""
    again, err = run_regard("translate", "-m", folder, "--verbose", *LINES)
    assert again == out and err == "regard: engine ctranslate2: a translator on a CPU\n"


def test_where_the_cache_is(monkeypatch):
    monkeypatch.setenv("HOME", "/home/x")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("REGARD_CACHE")
    for platform, wanted in (("linux", "/home/x/.cache/regard"), ("darwin", "/home/x/Library/Caches/regard")):
        monkeypatch.setattr(sys, "platform", platform)
        assert cache.cache_folder() == Path(wanted)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache.cache_folder() == Path("/xdg/regard")
    monkeypatch.setenv("REGARD_CACHE", "/own")
    assert cache.cache_folder() == Path("/own")


# ------------------------------------------------------------------------------------------------- size and lock


def stored(number: int, size: int = 1000) -> Path | None:
    def convert(out) -> dict[str, bytes]:
        out.write(bytes([number]) * size)
        return {"config.json": b"{}"}

    place, files = cache.converted((number,), convert)
    assert files["config.json"] == b"{}"
    return place


def test_the_least_recently_used_entries_are_removed(own_cache, monkeypatch):
    places = [stored(number) for number in range(4)]
    for age, place in enumerate(places):
        os.utime(place, (time.time() - 100 + age,) * 2)
    others = own_cache / "ctranslate2" / "notes", own_cache / "ctranslate2" / ".x.tmp"
    for other in others:  # not the cache's: never touched
        other.mkdir()
        (other / "file").write_bytes(bytes(9000))
    assert stored(0) == places[0]  # used again
    monkeypatch.setattr(cache, "MAX_BYTES", 2 * sum(file.stat().st_size for file in places[0].iterdir()) + 500)
    new = stored(4)
    left = {path for path in (own_cache / "ctranslate2").iterdir() if path.is_dir()}
    assert left == {new, places[0], *others}
    assert stored(5, size=100_000).is_dir()  # larger than all that is allowed, but it is needed now
    assert not places[0].exists() and not new.exists()


def test_entries_that_cannot_be_removed_harm_nobody(own_cache, monkeypatch):
    first = stored(1)
    monkeypatch.setattr(cache, "MAX_BYTES", 1)

    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    assert stored(2).is_dir() and first.is_dir()


def test_the_lock_of_another_process_is_waited_for_a_while(folder, own_cache, conversions, monkeypatch, right):
    monkeypatch.setattr(cache, "PATIENCE", 0.3)
    (own_cache / "ctranslate2").mkdir()
    with contextlib.closing(hold(own_cache / "ctranslate2" / "lock")):
        began = time.monotonic()
        assert answers(folder) == right
        assert time.monotonic() - began >= 0.3
        assert entries(own_cache) == []
    assert answers(folder) == right
    assert len(entries(own_cache)) == 1
    assert len(conversions) == 2


def test_an_entry_is_used_while_another_process_holds_the_lock(folder, own_cache, conversions, right):
    answers(folder)
    with contextlib.closing(hold(own_cache / "ctranslate2" / "lock")):
        assert answers(folder) == right
    assert len(conversions) == 1
