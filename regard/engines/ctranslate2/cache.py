"""Converted models, kept in the user's cache folder.

    CACHE/ctranslate2/KEY/       one conversion, a folder with a manifest like a model folder
    CACHE/ctranslate2/KEY.lock   held by the process that converts; the others wait for it

KEY is a hash of the model and of all else that the conversion depends on, so an entry never goes stale. Entries are
written atomically and checked by hash before use; one that is damaged is made again. Where the folder cannot be
written the conversion happens in memory, every time. The least recently used entries are removed beyond MAX_BYTES.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from regard.errors import UserError
from regard.locking import hold
from regard.storage import read_folder, write_folder

MAX_BYTES = 4 << 30
PATIENCE = 60.0
"""Seconds to wait for another process that converts the same model."""
MODEL = "model.bin"

Convert = Callable[[BinaryIO], dict[str, bytes]]
"""Writes model.bin and returns the other files by name."""
Files = dict[str, bytes]


def cache_folder() -> Path:
    """REGARD_CACHE, else the platform's folder for caches."""
    if own := os.environ.get("REGARD_CACHE"):
        return Path(own)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "regard" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "regard"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


def converted(parts: tuple[object, ...], convert: Convert) -> tuple[Path | None, Files]:
    """The folder of a conversion that depends on `parts`, and its small files; or None and all files in memory."""
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
    try:
        place = cache_folder() / "ctranslate2"
        entry = place / key
        if (files := _read(entry)) is not None:
            return entry, files
        place.mkdir(parents=True, exist_ok=True)
        with _in_turn(place / f"{key}.lock"):
            if (files := _read(entry)) is None:  # another process may have converted it meanwhile
                _write(entry, convert)
                files = _read(entry)
                _remove_oldest(place, entry)
        if files is not None:
            return entry, files
    except (OSError, RuntimeError, UserError) as error:  # no home, read-only, full, locks not supported, ...
        if isinstance(error, UserError) and not isinstance(error.__cause__, OSError):
            raise  # the model's fault
    out = BytesIO()
    others = convert(out)
    return None, {**others, MODEL: out.getvalue()}


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


def _write(entry: Path, convert: Convert) -> None:
    temporary = entry.parent / f".{entry.name}.{os.getpid()}.bin.tmp"
    try:
        with temporary.open("wb") as out:
            others = convert(out)
        write_folder(entry, {MODEL: lambda path: os.replace(temporary, path), **others})
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _in_turn(lock_file: Path) -> Iterator[None]:
    """One process at a time. It gives up waiting after a while: then it converts in memory."""
    deadline = time.monotonic() + PATIENCE
    while (lock := hold(lock_file)) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{lock_file} is held by another process")
        time.sleep(0.02)
    with lock:
        yield


def _remove_oldest(place: Path, kept: Path) -> None:
    """Keeps the folder below MAX_BYTES, and removes what killed processes left behind."""
    for leftover in place.glob(".*.tmp"):
        if time.time() - leftover.stat().st_mtime > 10 * PATIENCE:
            leftover.unlink() if leftover.is_file() else shutil.rmtree(leftover, ignore_errors=True)
    entries = sorted((path for path in place.iterdir() if path.is_dir() and path != kept), key=_used, reverse=True)
    size = _size(kept)
    for entry in entries:
        size += _size(entry)
        if size > MAX_BYTES:
            shutil.rmtree(entry, ignore_errors=True)
            (place / f"{entry.name}.lock").unlink(missing_ok=True)


def _used(path: Path) -> float:
    return path.stat().st_mtime


def _size(entry: Path) -> int:
    return sum(file.stat().st_size for file in entry.iterdir())
