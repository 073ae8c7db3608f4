"""File locks: one process holds a file at a time; the system releases it when the process ends, however it ends."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path
from typing import IO


def hold(path: Path) -> IO[str] | None:
    """The file, opened and locked until it is closed; None while another process holds it.

    It contains the id of the process that holds it or held it last.
    """
    file = path.open("a+", encoding="utf-8")
    try:
        _lock(file)
    except OSError as error:
        file.close()
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return None
        raise
    try:
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
    except OSError:  # a full disk
        with contextlib.suppress(OSError):  # closing tries to write once more
            file.close()
        raise
    return file


def hold_in_turn(path: Path, patience: float = 0.1) -> IO[str]:
    """Waits until no other process holds the file, then locks it."""
    while (file := hold(path)) is None:
        time.sleep(patience)
    return file


def is_held(path: Path) -> bool:
    """Whether a process holds the file now. The check itself locks it for an instant."""
    try:
        file = path.open(encoding="utf-8")
    except OSError:
        return False
    with file:
        try:
            _lock(file, shared=True)
        except OSError as error:
            return error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
    return False


def _lock(file: IO[str], shared: bool = False) -> None:
    if os.name == "nt":
        import msvcrt

        file.seek(2**20)  # beyond the text: a locked region cannot be read there
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
        file.seek(0)
    else:
        import fcntl

        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
