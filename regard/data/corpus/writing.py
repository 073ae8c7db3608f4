"""Writes lines to plain or .gz files, which appear under their names only when they are complete."""

from __future__ import annotations

import zlib
from contextlib import ExitStack
from pathlib import Path

from regard.atomic_files import AtomicFile
from regard.data.compressed import SUFFIXES
from regard.errors import UserError

_PIECE = 1 << 16


class Lines:
    """A file being written. The same lines give the same bytes: the header of .gz has no time."""

    def __init__(self, path: Path) -> None:
        if path.suffix in SUFFIXES and path.suffix != ".gz":
            raise UserError(f"{path}: written are plain text and .gz; compress it afterwards")
        self.path = path
        self._file = AtomicFile(path)
        self._packer = zlib.compressobj(wbits=31) if path.suffix == ".gz" else None
        self._waiting: list[str] = []
        self._size = 0

    def __enter__(self) -> Lines:
        self._file.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._file.__exit__(None, None, None)

    def write(self, line: str) -> None:
        self._waiting.append(line)
        self._size += len(line)
        if self._size >= _PIECE:
            self._flush()

    def finish(self) -> None:
        """Gives the file its name."""
        self._flush()
        if self._packer:
            self._file.write(self._packer.flush())
        self._file.finish()
        self._file.replace()

    def _flush(self) -> None:
        content = "".join(f"{line}\n" for line in self._waiting).encode("utf-8", "replace")
        self._file.write(self._packer.compress(content) if self._packer else content)
        self._waiting, self._size = [], 0


def open_all(stack: ExitStack, *paths: Path | None) -> list[Lines | None]:
    """Opens files that are closed with the stack; one of None stays None."""
    return [stack.enter_context(Lines(path)) if path else None for path in paths]
