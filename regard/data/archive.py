"""Reads files of a zip or a folder one at a time into memory, within limits. Nothing is extracted to disk."""

from __future__ import annotations

import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from regard.data.bounded import check_size, megabytes, read_bytes
from regard.errors import UserError

MOST_FILES = 250_000
MOST_BYTES = 4_000_000_000

# Raised by damaged archives; encrypted ones raise a RuntimeError.
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, RuntimeError, ValueError)


class Archive:
    """A zip or a folder. `names` are sorted paths with `/`, without `.DS_Store`, `__MACOSX` and other hidden files."""

    def __init__(self, path: Path, names: list[str], read: Callable[[str, int], bytes]) -> None:
        self.path, self.names, self._read = path, names, read

    def read(self, name: str, limit: int) -> bytes:
        """The content of a file of at most `limit` bytes."""
        with _readable(self.where(name)):
            return self._read(name, limit)

    def where(self, name: str) -> str:
        """The name of a file in it for error messages, always one line."""
        return f"{self.path}: {name!r}"


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Opens a zip file or a folder for reading."""
    if path.is_dir():
        yield Archive(path, _names_below(path), lambda name, limit: read_bytes(path / name, limit, limit))
        return
    check_size(path, MOST_BYTES)
    with _readable(str(path)):
        opened = zipfile.ZipFile(path)
    with opened:
        yield _zipped(path, opened)


@contextmanager
def _readable(where: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        raise UserError(f"{where}: cannot be read ({' '.join(str(error).split())}); check the file") from None


def _zipped(path: Path, opened: zipfile.ZipFile) -> Archive:
    members = opened.infolist()
    if len(members) > MOST_FILES or sum(member.file_size for member in members) > MOST_BYTES:
        raise _too_much(path)
    found = {member.filename: member for member in members if not member.is_dir() and not _hidden(member.filename)}

    def read(name: str, limit: int) -> bytes:
        size = found[name].file_size
        if size > limit:
            raise UserError(f"{path}: {name!r}: has {megabytes(size)}; {megabytes(limit)} are the most")
        with opened.open(found[name]) as stream:  # yields no more than the size in the listing
            return stream.read()

    return Archive(path, sorted(found), read)


def _names_below(folder: Path) -> list[str]:
    names: list[str] = []
    for parent, _, files in os.walk(folder):
        names += [Path(parent, file).relative_to(folder).as_posix() for file in files]
        if len(names) > MOST_FILES:
            raise _too_much(folder)
    return sorted(name for name in names if not _hidden(name))


def _hidden(name: str) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in PurePosixPath(name).parts)


def _too_much(path: Path) -> UserError:
    return UserError(f"{path}: holds more than {MOST_FILES:,} files or {megabytes(MOST_BYTES)}; use fewer")
