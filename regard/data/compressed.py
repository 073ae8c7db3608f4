"""Binary streams of plain or compressed files (.gz, .xz, .zst, .bz2) with bounded memory, whatever the content.

A few kilobytes can expand to gigabytes, and a header can demand a window of gigabytes. These decompressors yield at
most a few megabytes at a time and accept no larger window than the format's own tools by default.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from regard.errors import UserError

SUFFIXES = (".gz", ".xz", ".zst", ".bz2")
XZ_MEMORY = 100 << 20
"""Memory limit of the decoder in bytes; `xz -9` needs 65 MB."""
ZST_WINDOW = 128 << 20
"""Largest window in bytes: that of `zstd -d` without --long."""
ALWAYS = 50_000_000
EXPANSION = 100
"""Limit of a decompressed file in memory: ALWAYS bytes, or EXPANSION times its size if that is more. Text compresses
to between a third and a tenth; files that truly expand further can be unpacked first."""
DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""Raised by reading a damaged file."""

_BLOCK = 1 << 17
_ZST_INPUT = 1 << 10
"""Compressed bytes per call: zstandard expands them all, up to 128 KB for every 4 bytes, 32 MB in total."""


def open_expanded(file: Path, suffix: str | None = None) -> io.BufferedReader:
    """The content of a file, decompressed according to its name or `suffix`. Raises errors of `DAMAGED`."""
    suffix = file.suffix if suffix is None else suffix
    if suffix in (".gz", ".bz2"):  # these two close only files that they opened themselves
        return _buffered(gzip.GzipFile(file, "rb") if suffix == ".gz" else bz2.BZ2File(file, "rb"))
    return expanded(file.open("rb"), file, suffix)


def expanded(stream: io.BufferedReader, name: Path, suffix: str) -> io.BufferedReader:
    """As `open_expanded`, but from an open stream, which the caller closes; `name` is for messages."""
    if suffix == ".gz":
        return _buffered(gzip.GzipFile(fileobj=stream))
    if suffix == ".bz2":
        return _buffered(bz2.BZ2File(stream))
    if suffix in (".xz", ".zst"):
        return _buffered(_Stream(stream, name, _xz_blocks if suffix == ".xz" else _zst_blocks))
    return stream


def _buffered(raw: Any) -> io.BufferedReader:
    return io.BufferedReader(raw, _BLOCK)


def most_in_memory(file: Path, most: int, suffix: str | None = None) -> int:
    """Most bytes that a file may expand to in memory: `most`, or less for a small compressed one."""
    packed = (file.suffix if suffix is None else suffix) in SUFFIXES
    return min(most, max(ALWAYS, EXPANSION * file.stat().st_size)) if packed else most


def too_large(file: Path, limit: int, line: int = 0) -> UserError:
    where = f"{file}, line {line}:" if line else f"{file}"
    if file.suffix not in SUFFIXES:
        return UserError(f"{where} holds more than fits in memory, {megabytes(limit)}; use a smaller file")
    return UserError(
        f"{where} unpacks to more than {megabytes(limit)}, which are the most for a file of "
        f"{megabytes(file.stat().st_size)}; unpack it first if that is what it should hold, or use a smaller file"
    )


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB".replace(".0 ", " ")


class _Stream(io.RawIOBase):
    """A readable file made of blocks of bytes."""

    def __init__(self, stream: io.BufferedReader, name: Path, blocks: Any) -> None:
        self._file = stream
        self._blocks: Iterator[bytes] = blocks(stream, name)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _xz_blocks(stream: BinaryIO, file: Path) -> Iterator[bytes]:
    decoder, begun, data = None, False, b""
    while data or (data := stream.read(_BLOCK)):
        if decoder is None:
            data = data.lstrip(b"\0") if begun else data  # padding between streams
            if not data:
                continue
            decoder, begun = lzma.LZMADecompressor(memlimit=XZ_MEMORY), True
        try:
            yield decoder.decompress(data, _BLOCK)
            while not (decoder.eof or decoder.needs_input):
                yield decoder.decompress(b"", _BLOCK)
        except lzma.LZMAError as error:
            if "emory usage limit" in str(error):
                raise _too_large_a_window(file, XZ_MEMORY, "xz -9 or less") from None
            raise
        data = decoder.unused_data
        decoder = None if decoder.eof else decoder
    if decoder is not None or not begun:
        raise EOFError("it ends too early")


def _zst_blocks(stream: BinaryIO, file: Path) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise UserError(f"{file}: reading .zst needs a package; pip install zstandard") from None
    frame = None
    while data := stream.read(_ZST_INPUT):
        while data:
            frame = frame or zstandard.ZstdDecompressor(max_window_size=ZST_WINDOW).decompressobj()
            try:
                yield frame.decompress(data)
            except zstandard.ZstdError as error:
                if "too much memory" in str(error):
                    raise _too_large_a_window(file, ZST_WINDOW, "zstd without --long") from None
                raise OSError(error) from None
            data = frame.unused_data if frame.eof else b""
            frame = None if frame.eof else frame
    if frame is not None:  # the package does not report truncated files
        raise EOFError("it ends too early")


def _too_large_a_window(file: Path, limit: int, tool: str) -> UserError:
    return UserError(
        f"{file}: decompressing it takes more than {limit >> 20} MB of memory, which are the most; "
        f"compress it again with {tool}"
    )
