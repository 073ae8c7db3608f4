"""Reads whole files up to a size limit, which is checked before memory is allocated."""

from __future__ import annotations

import io
from pathlib import Path

from regard.data.compressed import DAMAGED, SUFFIXES, megabytes, most_in_memory, open_expanded, too_large
from regard.data.corpus.reading import check_file
from regard.errors import UserError
from regard.regular_files import read_regular

_BLOCK = 1 << 20


def check_size(file: Path, limit: int) -> None:
    """Refuses a missing file, a pipe or device, and one of more than `limit` bytes."""
    if file.exists() and not file.is_file() and not file.is_dir():
        raise UserError(f"{file} is a pipe or a device, not a regular file; save its content to a file first")
    check_file(file)
    size = file.stat().st_size
    if size > limit:
        raise UserError(f"{file} has {megabytes(size)}; {megabytes(limit)} are the most")


def read_bytes(file: Path, limit: int, unpacked: int) -> bytes:
    """The content of a file, decompressed to at most `unpacked` bytes."""
    check_size(file, limit)
    most, content = most_in_memory(file, unpacked), io.BytesIO()
    try:
        if file.suffix not in SUFFIXES:
            return read_regular(file, limit)
        with open_expanded(file) as stream:
            while block := stream.read(_BLOCK):
                content.write(block)
                if content.tell() > most:
                    raise too_large(file, most)
    except DAMAGED as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise UserError(f"{file}: cannot be read ({reason or error}); check the file") from None
    return content.getvalue()


def read_text(file: Path, limit: int, unpacked: int) -> str:
    """The content of a file as text, which must be UTF-8."""
    content = read_bytes(file, limit, unpacked)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{file}, line {line}: is not text in UTF-8; convert the file to UTF-8") from None
