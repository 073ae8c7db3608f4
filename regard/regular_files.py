"""Opens untrusted files safely: regular files only, up to a size limit.

Opening a FIFO blocks, a device may have no end, and a sparse file of terabytes takes no space on a disk. Type and size
come from the open file descriptor, so the file cannot be swapped between check and use.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_BINARY"))


def open_regular(path: str | Path) -> BinaryIO:
    """Opens a regular file for reading; raises an OSError for anything else."""
    try:
        _refuse_special(os.stat(path).st_mode)  # opening a device may already have an effect
        descriptor = os.open(path, _FLAGS)
    except ValueError:  # a NUL in the name
        raise OSError(errno.EINVAL, "this cannot be the name of a file") from None
    try:
        _refuse_special(os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: str | Path, limit: int) -> bytes:
    """The content of a regular file; raises an OSError if it has more than `limit` bytes, before reading it."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(min(limit, max(size, 1 << 16)) + 1) if size <= limit else b""  # no more memory than needed
    if size > limit or len(content) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit:,} bytes")
    return content


def _refuse_special(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(mode), 'something else')}, not a regular file")
