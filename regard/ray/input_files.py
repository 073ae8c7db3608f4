"""Reads the input of a bulk job: text, JSON lines, CSV and parquet, from a file, a folder or a glob, here or remote.

Rows are numbered through all files in the order of their names, as if they were one file. A bad row does not end the
job: it is read as an empty text, with what is wrong with it.
"""

from __future__ import annotations

import csv
import fnmatch
import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from regard.data.compressed import DAMAGED, SUFFIXES, expanded
from regard.data.corpus.reading import LONGEST_LINE, decode_line
from regard.errors import UserError

FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
"""Format by suffix; everything else is text."""
MAX_FILES = 1_000_000
_WILDCARD = re.compile(r"[*?\[]")


class Row(NamedTuple):
    text: str
    key: Any = None
    """None in text files, where the order says which line is which."""
    problem: str = ""


@dataclass(frozen=True)
class InputFile:
    path: str
    name: str
    """Its path relative to the folder that was named."""
    size: int
    modified: int | None
    """Nanoseconds; None where the storage does not say."""
    rows: int = 0


@dataclass(frozen=True)
class Input:
    """What to read: a path or URL of a file or folder, or a glob; of structured files also the columns."""

    location: str
    column: str | None = None
    """The column with the text, by default `text`."""
    key: str | None = None
    """The column that identifies a row, by default NAME:ROW."""

    def files(self) -> list[InputFile]:
        """The files, sorted by path; those that begin with a dot or an underscore are left out."""
        from pyarrow.fs import FileSelector, FileType

        is_glob = _WILDCARD.search(self.location) and not (is_local(self.location) and os.path.exists(self.location))
        fixed = _WILDCARD.split(self.location)[0] if is_glob else ""
        base = fixed.rpartition("/")[0] or "." if fixed else self.location
        try:
            system, place = filesystem(base)
            info = system.get_file_info(place)
            if info.type == FileType.NotFound:
                raise UserError(f"{base} does not exist; check the path (of a cluster: as its nodes see it)")
            found = [info] if info.is_file else system.get_file_info(FileSelector(place, recursive=True))
        except (OSError, ImportError) as error:
            raise UserError(f"{self.location}: cannot be read ({_line(error)}); check the path") from None
        root = place.rstrip("/")
        pattern = self.location[len(base) :].lstrip("/") if fixed and base != "." else self.location if fixed else ""
        files = []
        for one in sorted((one for one in found if one.is_file), key=lambda one: one.path):
            name = one.base_name if one.path == root else one.path[len(root) :].lstrip("/")
            hidden = one.path != root and any(part.startswith((".", "_")) for part in name.split("/"))
            if not hidden and (not pattern or _matches(name, pattern)):
                files.append(InputFile(one.path, name, one.size, one.mtime_ns))
        if not files:
            raise UserError(f"{self.location}: no files there; check the path")
        if len(files) > MAX_FILES:
            raise UserError(f"{self.location}: more than {MAX_FILES:,} files; join them")
        return files

    def format(self, files: list[InputFile]) -> str:
        """The one format of all files."""
        found = {format_of(file.path): file.name for file in files}
        if len(found) > 1:
            names = " and ".join(f"{name} ({form})" for form, name in sorted(found.items()))
            raise UserError(f"{self.location}: holds files of several formats, {names}; name those of one, as *.csv")
        (form,) = found
        if form == "text" and (self.column or self.key):
            raise UserError(f"{self.location}: text files have no columns; leave out --column and --key")
        return form

    def count(self, file: InputFile) -> int:
        """The number of rows of a file."""
        system, _ = filesystem(self.location)
        if format_of(file.path) == "parquet":
            with _parquet(system, file) as opened:
                self._check_columns(file, opened.schema_arrow.names)
                return int(opened.metadata.num_rows)
        return sum(1 for _ in self.rows(file))

    def rows(self, file: InputFile, start: int = 0) -> Iterator[Row]:
        """The rows of a file from row `start` on, the first being 0."""
        system, _ = filesystem(self.location)
        form = format_of(file.path)
        if form == "parquet":
            yield from self._parquet_rows(system, file, start)
            return
        number = 0
        try:
            with system.open_input_stream(file.path, compression=None) as raw:
                suffix = PurePosixPath(file.path).suffix
                with expanded(io.BufferedReader(raw), Path(file.name), suffix) as stream:
                    read = {"text": _text_rows, "jsonl": self._json_rows, "csv": self._csv_rows}[form]
                    for number, row in enumerate(read(_lines(stream), file), 1):
                        if number > start:
                            yield row
        except (*DAMAGED, csv.Error) as error:
            where = f"{file.name}, after line {number}" if number else file.name
            raise UserError(f"{where}: cannot be read ({_line(error)}); check the file") from None

    def unchanged(self, file: InputFile) -> bool:
        """Whether a file still has the size and time it had."""
        system, _ = filesystem(self.location)
        info = system.get_file_info(file.path)
        return (info.size, info.mtime_ns) == (file.size, file.modified)

    def _json_rows(self, lines: Iterator[bytes | None], file: InputFile) -> Iterator[Row]:
        for number, line in enumerate(lines, 1):
            usual = f"{file.name}:{number}"
            if line is None:
                yield Row("", usual, _TOO_LONG)
                continue
            try:
                tree = json.loads(line)
            except (ValueError, RecursionError):
                tree = None
            yield self._row(tree, usual) if isinstance(tree, dict) else Row("", usual, "is not a JSON object")

    def _csv_rows(self, lines: Iterator[bytes | None], file: InputFile) -> Iterator[Row]:
        spoilt = False

        def decoded() -> Iterator[str]:
            nonlocal spoilt
            for number, line in enumerate(lines, 1):
                text = "" if line is None else line.decode("utf-8", "replace")
                spoilt = spoilt or line is None or ("\ufffd" in text and b"\xef\xbf\xbd" not in line)
                yield (text.removeprefix("\ufeff") if number == 1 else text) + "\n"

        csv.field_size_limit(LONGEST_LINE)
        reader = csv.reader(decoded())
        names = next(reader, [])
        self._check_columns(file, names)
        number = 0
        while True:
            spoilt, number = False, number + 1
            usual = f"{file.name}:{number}"
            try:
                cells = next(reader, None)
            except csv.Error as error:
                yield Row("", usual, f"is not a row of CSV ({error})")
                continue
            if cells is None:
                return
            row = self._row(dict(zip(names, cells)), usual)
            yield row._replace(problem=_INVALID) if spoilt and not row.problem else row

    def _parquet_rows(self, system: Any, file: InputFile, start: int) -> Iterator[Row]:
        from pyarrow import ArrowException

        wanted = [name for name in (self.column or "text", self.key) if name]
        try:
            with _parquet(system, file) as opened:
                self._check_columns(file, opened.schema_arrow.names)
                number = 0
                for group in range(opened.metadata.num_row_groups):
                    size = opened.metadata.row_group(group).num_rows
                    if number + size <= start:
                        number += size
                        continue
                    for batch in opened.iter_batches(row_groups=[group], columns=wanted):
                        for tree in batch.to_pylist():
                            number += 1
                            if number > start:
                                yield self._row(tree, f"{file.name}:{number}")
        except (OSError, ArrowException) as error:
            raise UserError(f"{file.name}: cannot be read ({_line(error)}); check the file") from None

    def _row(self, tree: dict[str, Any], usual: str) -> Row:
        text = tree.get(self.column or "text")
        key = tree.get(self.key) if self.key else usual
        if key is None:
            return Row("", usual, f"has no key in column {self.key}")
        key = key if isinstance(key, str | int | float | bool) else str(key)
        if not isinstance(text, str):
            return Row("", key, f"has no text in column {self.column or 'text'}")
        if len(text) > LONGEST_LINE:
            return Row("", key, _TOO_LONG)
        return Row(text.encode("utf-8", "replace").decode(), key)  # without lone surrogates

    def _check_columns(self, file: InputFile, names: list[str]) -> None:
        for name in (self.column or "text", self.key):
            if name and name not in names:
                has = ", ".join(names[:20]) or "none"
                raise UserError(f"{file.name}: has no column {name} but {has}; name one with --column or --key")


_TOO_LONG = f"has more than {LONGEST_LINE:,} bytes, which are the most of a line; it was read as empty"
_INVALID = "is not valid UTF-8; invalid bytes were replaced by U+FFFD"


def format_of(path: str) -> str:
    """`text`, `jsonl`, `csv` or `parquet`, by the name without the suffix of a compression."""
    place = PurePosixPath(path)
    return FORMATS.get((place.with_suffix("") if place.suffix in SUFFIXES else place).suffix, "text")


def filesystem(location: str) -> tuple[Any, str]:
    """The file system of a path or URL, and the path in it: what pyarrow knows, otherwise what fsspec does."""
    from pyarrow import fs

    if "://" not in location:
        return fs.LocalFileSystem(), os.path.abspath(location)
    location = _WILDCARD.split(location)[0]
    try:
        return fs.FileSystem.from_uri(location)  # type: ignore[no-any-return]
    except ValueError:  # a scheme that it does not know
        from fsspec.core import url_to_fs

        try:
            system, path = url_to_fs(location)
        except ValueError as error:
            raise UserError(f"{location}: {_line(error)}") from None
        return fs.PyFileSystem(fs.FSSpecHandler(system)), path


def is_local(location: str) -> bool:
    return "://" not in location


def _parquet(system: Any, file: InputFile) -> Any:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        return ParquetFile(system.open_input_file(file.path))
    except (OSError, ArrowException) as error:
        raise UserError(f"{file.name}: cannot be read as parquet ({_line(error)}); check the file") from None


def _text_rows(lines: Iterator[bytes | None], file: InputFile) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        problems: list[str] = []
        text = "" if line is None else decode_line(line, number, problems.append)
        yield Row(text, None, _TOO_LONG if line is None else _INVALID if problems else "")


def _lines(stream: io.BufferedReader) -> Iterator[bytes | None]:
    """The lines without `\\n`; None for one that is too long, which is never in memory as a whole."""
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) <= LONGEST_LINE or line.endswith(b"\n"):
            yield line.removesuffix(b"\n")
            continue
        while (rest := stream.readline(1 << 16)) and not rest.endswith(b"\n"):
            pass
        yield None


def _matches(name: str, pattern: str) -> bool:
    """As a shell matches: `*` stays within a folder."""
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__
