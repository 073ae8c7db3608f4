"""Converted models, kept in the user's cache folder.

    CACHE/ctranslate2/KEY/   one conversion, a folder with a manifest like a model folder
    CACHE/ctranslate2/lock   held by the process that converts or removes; the others wait for it

KEY is a hash of the model and of all else that the conversion depends on, so an entry never goes stale. Entries are
written atomically and checked by hash before use; one that is damaged is made again. Where the folder cannot be
written the conversion happens in memory, every time. The least recently used entries are removed beyond MAX_BYTES.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable
from io import BufferedIOBase, BytesIO
from pathlib import Path

from regard.cache_folder import cache_folder
from regard.errors import UserError
from regard.locking import hold
from regard.storage import read_folder, write_folder

MAX_BYTES = 4 << 30
PATIENCE = 60.0
"""Seconds to wait for another process that converts."""
MODEL = "model.bin"
_ENTRY = re.compile(r"[0-9a-f]{32}")
_LEFTOVER = re.compile(r"\.[0-9a-f]{32}\..+\.tmp")
"""Only what has such a name is ever removed: the user may keep other things in this folder."""

Convert = Callable[[BufferedIOBase], dict[str, bytes]]
"""Writes model.bin and returns the other files by name."""
Files = dict[str, bytes]


def converted(parts: tuple[object, ...], convert: Convert) -> tuple[Path | None, Files]:
    """The folder of a conversion that depends on `parts`, and its small files; or None and all files in memory."""
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
    try:
        entry = cache_folder() / "ctranslate2" / key
        files = _read(entry)
        if files is None:
            entry.parent.mkdir(parents=True, exist_ok=True)
            files = _make(entry, convert)
        if files is not None:
            return entry, files
    except (OSError, RuntimeError, UserError) as error:  # no home, read-only, full, locks not supported, ...
        if isinstance(error, UserError) and not isinstance(error.__cause__, OSError):
            raise  # the model's fault
    return None, in_memory(convert)


def in_memory(convert: Convert) -> Files:
    """All files of a conversion."""
    out = BytesIO()
    others = convert(out)
    return {**others, MODEL: out.getvalue()}


def _read(entry: Path) -> Files | None:
    """The small files of an entry; None if there is none, or it is damaged."""
    try:
        folder = read_folder(entry)
    except UserError:
        return None
    if MODEL not in folder.names:
        return None
    with contextlib.suppress(OSError):
        os.utime(entry)  # used just now
    return dict(folder.small)


def _make(entry: Path, convert: Convert) -> Files | None:
    """Converts when it is this process's turn, unless another one has made the entry meanwhile."""
    deadline, pause = time.monotonic() + PATIENCE, 0.01
    while (lock := hold(entry.parent / "lock")) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{entry.parent} is locked by another process")
        time.sleep(pause)
        pause = min(1.5 * pause, 0.5)  # of hundreds that wait, none should slow down the one that works
        if (files := _read(entry)) is not None:
            return files
    with lock:
        if (files := _read(entry)) is None:
            _remove_leftovers(entry.parent)
            _write(entry, convert)
            files = _read(entry)
            _remove_oldest(entry)
    return files


def _write(entry: Path, convert: Convert) -> None:
    temporary = entry.parent / f".{entry.name}.{os.getpid()}.bin.tmp"
    try:
        with temporary.open("wb") as out:
            others = convert(out)
        write_folder(entry, {MODEL: lambda path: os.replace(temporary, path), **others})
    finally:
        temporary.unlink(missing_ok=True)


def _remove_leftovers(place: Path) -> None:
    """Removes what killed processes left behind; call it only while holding the lock."""
    for path in place.iterdir():
        if _LEFTOVER.fullmatch(path.name):
            _remove(path)


def _remove_oldest(kept: Path) -> None:
    """Removes the least recently used entries beyond MAX_BYTES, but never the one that is about to be used."""
    with contextlib.suppress(OSError):  # the next process that converts tries again
        others = [path for path in kept.parent.iterdir() if _ENTRY.fullmatch(path.name) and path != kept]
        size = _size(kept)
        for entry in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True):
            size += _size(entry)
            if size > MAX_BYTES:
                _remove(entry)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _size(entry: Path) -> int:
    return sum(file.stat().st_size for file in entry.iterdir()) if entry.is_dir() else 0
