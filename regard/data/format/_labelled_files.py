"""Shared by formats whose labels are in a table of their own: an archive of files, and a table that names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from regard.data.archive import Archive, open_archive
from regard.errors import UserError


def archive_and_table(files: Sequence[Path], ending: str, kind: str) -> tuple[Path, Path]:
    """The zip or folder and the table (by its `ending`, compressed or not) among the two files of a part."""
    tables = [file for file in files if ending in file.suffixes[-2:]]
    archives = [file for file in files if file not in tables]
    if len(tables) != 1 or len(archives) != 1:
        raise UserError(
            f"data.format: {kind} reads two files per part, a zip or a folder and a table, such as "
            f"train.zip and train{ending}; given {', '.join(map(str, files)) or 'none'}"
        )
    return archives[0], tables[0]


class Labelled:
    """An archive whose files are found by their name alone, whatever folder they are in."""

    def __init__(self, archive: Archive, table: Path) -> None:
        self.archive, self._table = archive, table
        self._paths = {PurePosixPath(path).name: path for path in archive.names}

    def path(self, name: str) -> str:
        if name not in self._paths:
            raise UserError(f"{self._table}: names {name!r}, which is not in {self.archive.path}; add it")
        return self._paths[name]


@contextmanager
def open_labelled(archive: Path, table: Path) -> Iterator[Labelled]:
    with open_archive(archive) as opened:
        yield Labelled(opened, table)
