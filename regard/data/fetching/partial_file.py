"""The hidden file `.NAME.part` that a download is written to until it is complete and verified."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from regard.data.datasets import File
from regard.data.fetching.verify import Form
from regard.errors import UserError

CHUNK = 1 << 16


class PartialFile:
    """`.NAME.part` beside the final file, locked by one process at a time; symbolic links are never followed."""

    def __init__(self, folder: Path, file: File) -> None:
        self.file = file
        self.target = folder / file.name
        self.path = folder / f".{file.name}.part"
        self.size = 0
        self.published = False

    def __enter__(self) -> PartialFile:
        with self._one_line_errors():
            self._stream = self._open()
            self.size = self._stream.seek(0, os.SEEK_END)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # a full disk was reported by the write itself
            self._stream.close()
        if not self.size and not self.published:
            self.path.unlink(missing_ok=True)

    def _open(self) -> io.FileIO:
        while True:
            if self.path.is_symlink():
                self.path.unlink()
            # Neither flag exists on every system.
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
            stream = io.FileIO(os.open(self.path, flags, 0o666), "r+")
            try:
                _lock(stream)
            except BlockingIOError:
                stream.close()
                raise UserError(f"{self.target}: another process is fetching this file; wait for it") from None
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(stream.fileno()), self.path.stat()):
                    return stream
            stream.close()  # the process that held the lock has just published this file

    def write(self, chunk: bytes) -> None:
        with self._one_line_errors():
            rest = memoryview(chunk)
            while rest:  # unbuffered: bytes that were counted are in the file, however the process ends
                written = self._stream.write(rest)
                self.size, rest = self.size + written, rest[written:]

    def empty(self) -> None:
        with self._one_line_errors():
            self._stream.seek(0)
            self._stream.truncate()
            self.size = 0

    def publish(self, form: Form) -> None:
        """Gives the file its final name; one that came unpacked is compressed first."""
        with self._one_line_errors():
            if form == "plain":
                self._compress()
                self.path.unlink()
            else:
                os.fsync(self._stream.fileno())
                self._stream.close()  # some systems cannot rename an open file
                os.replace(self.path, self.target)
        self.published = True

    def _compress(self) -> None:
        temporary = self.path.with_name(f".{self.file.name}.{os.getpid()}.tmp")
        try:
            self._stream.seek(0)
            with temporary.open("xb") as raw:
                with gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
                    shutil.copyfileobj(self._stream, packed, CHUNK)
                raw.flush()
                os.fsync(raw.fileno())
            os.replace(temporary, self.target)
        finally:
            temporary.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(
                f"cannot write {self.target}: {error.strerror or error}; what was there before is intact; "
                "make room or choose another folder with --data, then run the same command again"
            ) from None


def _lock(stream: io.FileIO) -> None:
    with contextlib.suppress(ImportError):  # Windows: the checksum would reveal two writers
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
