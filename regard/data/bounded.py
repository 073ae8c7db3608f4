"""Files that are read whole, but none that is larger than it may be: the limit holds before memory is taken."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from regard.data.corpus.reading import check_file
from regard.errors import UserError
from regard.regular_files import open_regular, read_regular


def check_size(file: Path, limit: int) -> None:
    """Refuses a file that is not there or has more than `limit` bytes."""
    if file.exists() and not file.is_file() and not file.is_dir():
        raise UserError(f"{file} is a pipe or a device, not a regular file; save its content to a file first")
    check_file(file)
    size = file.stat().st_size
    if size > limit:
        raise UserError(f"{file} has {megabytes(size)}; {megabytes(limit)} are the most")


def read_bytes(file: Path, limit: int, unpacked: int) -> bytes:
    """What a file holds; one that ends in .gz is unpacked, to no more than `unpacked` bytes."""
    check_size(file, limit)
    try:
        if file.suffix != ".gz":
            return read_regular(file, limit)
        with open_regular(file) as packed, gzip.open(packed, "rb") as stream:
            content = stream.read(unpacked + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(
            f"{file}: cannot be read ({getattr(error, 'strerror', None) or error}); check the file"
        ) from None
    if len(content) > unpacked:
        raise UserError(f"{file} unpacks to more than {megabytes(unpacked)}, which are the most")
    return content


def read_text(file: Path, limit: int, unpacked: int) -> str:
    """The same as text, which must be UTF-8."""
    content = read_bytes(file, limit, unpacked)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{file}, line {line}: is not text in UTF-8; convert the file to UTF-8") from None


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB".replace(".0 ", " ")
