"""A new folder that appears only when all of its files are on the disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import UserError


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to write into; it gets its final name at the end, and vanishes after a failure."""
    if folder.exists():
        raise UserError(f"{folder} already exists; choose another folder")
    place = folder.parent / f".{folder.name}.{os.getpid()}.tmp"
    try:
        place.mkdir(parents=True)
        yield place
        for path in place.iterdir():
            with path.open("r+b") as file:
                os.fsync(file.fileno())
        os.rename(place, folder)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror or error}; choose another folder") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
