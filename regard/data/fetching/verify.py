"""Compares files with the size and SHA-256 that a data set declares for them, packed or unpacked."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from pathlib import Path
from typing import Literal

from regard.data.datasets import File
from regard.errors import UserError

GZIP = b"\x1f\x8b"
Form = Literal["same", "plain", "repacked"]
"""How a file holds its content: identical bytes, not compressed, or compressed differently."""


def seems_present(path: Path, file: File) -> bool:
    """A quick check by size alone, or by the unpacked size that a .gz states in its last bytes."""
    try:
        if path.stat().st_size == file.size:
            return True
        if not file.content_size:
            return False
        with path.open("rb") as stream:
            magic = stream.read(2)
            stream.seek(-4, os.SEEK_END)
            return magic == GZIP and int.from_bytes(stream.read(4), "little") == file.content_size % 2**32
    except OSError:
        return False


def verified_form(path: Path, file: File) -> Form | None:
    """The form in which a file holds the right content; None when the content is not right."""
    try:
        size = path.stat().st_size if path.is_file() else 0
        if size == file.size and _sha256(path) == file.sha256:
            return "same"
        if file.content_size:
            if size == file.content_size and _sha256(path) == file.content_sha256:
                return "plain"
            if 0 < size <= file.limit and _unpacks_to(path, file):
                return "repacked"
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    return None


def mismatch(origin: object, path: Path, file: File) -> UserError:
    """The error for a file from `origin`, now at `path`, whose content is not right."""
    with path.open("rb") as stream:
        packed = stream.read(2) == GZIP
    plain = file.content_size and not packed
    size, expected = (file.content_size, file.content_sha256) if plain else (file.size, file.sha256)
    return UserError(
        f"{origin}: not the file that {file.name} must be: sha256 {_sha256(path)} ({path.stat().st_size:,} bytes), "
        f"expected {expected} ({size:,} bytes); nothing was replaced; take another copy"
    )


def _unpacks_to(path: Path, file: File) -> bool:
    """Whether a .gz unpacks to the right content; stops as soon as it unpacks to more."""
    digest, left = hashlib.sha256(), file.content_size
    try:
        with gzip.open(path, "rb") as stream:
            while chunk := stream.read(min(left + 1, 1 << 20)):
                left -= len(chunk)
                if left < 0:
                    return False
                digest.update(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return False
    return digest.hexdigest() == file.content_sha256


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
