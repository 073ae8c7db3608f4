"""Atomic writes: a file appears under its name only when it is complete, verified and on disk.

The temporary name contains the host, the process id and a random part, so no two writers share it, even on file
systems that do not share locks between machines.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import secrets
import socket
import time
from pathlib import Path
from types import TracebackType

from regard.errors import UserError

ABANDONED = 86_400.0
"""Seconds without a write after which a temporary file of another host counts as abandoned."""
_TEMPORARY = re.compile(r"\..+\.(?P<host>[\w-]+)\.(?P<pid>[0-9]{1,9})\.[0-9a-f]{8}\.tmp")


class AtomicFile:
    """A file being written under a temporary name, which is removed on exit unless the file was published."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = target.with_name(temporary_name(target.name))
        self._digest = hashlib.sha256()

    def __enter__(self) -> AtomicFile:
        self._stream = self.path.open("xb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # a full disk was reported when it was written to
            self._stream.close()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def write(self, content: bytes) -> None:
        self._stream.write(content)
        self._digest.update(content)

    def finish(self) -> None:
        """Syncs the file, reads it back and refuses it unless it holds exactly what was written."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        if sha256(self.path) != self._digest.hexdigest():
            raise UserError(f"{self.path} does not hold what was written to it; check the disk or choose another")

    def replace(self) -> None:
        """Renames the file to its final name, replacing an existing one."""
        os.replace(self.path, self.target)


def remove_leftovers(folder: Path) -> None:
    """Removes temporary files of dead processes: on this host by process id, on others by age."""
    for path in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):  # removed by another process, or not ours to remove
            if is_abandoned(path):
                path.unlink()


@functools.cache
def this_host() -> str:
    """The name within which process ids are unique: containers may share a host name but not its process ids."""
    name = re.sub(r"[^\w-]", "-", socket.gethostname(), flags=re.ASCII)[:40]
    with contextlib.suppress(OSError):
        return f"{name}-{os.stat('/proc/self/ns/pid').st_ino:x}"
    return name


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def temporary_name(name: str) -> str:
    """A hidden name that no other writer has, by which `is_abandoned` knows who made it."""
    return f".{name.lstrip('.')}.{this_host()}.{os.getpid()}.{secrets.token_hex(4)}.tmp"


def is_abandoned(path: Path) -> bool:
    """Whether the process that made a temporary file or folder is dead; on another host, whether it is old."""
    found = _TEMPORARY.fullmatch(path.name)
    if found and found["host"] == this_host() and os.name != "nt":  # on Windows os.kill(pid, 0) would end the process
        return not _is_alive(int(found["pid"]))
    return time.time() - path.stat().st_mtime > ABANDONED


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
