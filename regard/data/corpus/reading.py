"""Streams lines and pairs of lines from plain or compressed text files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path

from regard.data.compressed import DAMAGED, most_in_memory, open_expanded, too_large
from regard.errors import UserError, suggestion

Pair = tuple[str, str]

LONGEST_LINE = 1 << 20
"""In bytes, about a book. A line of gigabytes is a damaged file or a decompression bomb."""
MOST_IN_MEMORY = 2_000_000_000
"""Bytes of text of a file that is kept in memory."""
LINE_OVERHEAD = 100
"""Further bytes that a line takes in memory."""

_BLOCK = 1024  # consecutive pairs of one file when files are mixed
_COLUMN = re.compile(r"(.+)#([1-9][0-9]*)")


def split_column(path: str | Path) -> tuple[Path, int | None]:
    """`pairs.tsv#2` is the second column of pairs.tsv, unless a file of that name exists."""
    found = _COLUMN.fullmatch(str(path))
    if found is None or Path(path).exists():
        return Path(path), None
    return Path(found[1]), int(found[2])


def read_lines(path: str | Path, kept: bool = False) -> Iterator[str]:
    """The lines of a file, or one column of a .tsv (the first unless `#N` is given), without line ends.

    With `kept`, for lines that all stay in memory, files beyond the memory limit are refused.
    """
    file, column = split_column(path)
    check_file(file)
    return _lines(file, column or (1 if is_table(file) else None), kept)


def read_pairs(
    source_paths: Sequence[str | Path], target_paths: Sequence[str | Path], mixed: bool = False, kept: bool = False
) -> Iterator[Pair]:
    """The pairs of one or more files per side. A .tsv without a target file holds both, in columns 1 and 2.

    Files are read one after another or, with `mixed`, alternately so that they end at about the same time. `kept` is as
    in `read_lines`.
    """
    if not target_paths and all(is_table(split_column(path)[0]) for path in source_paths):
        target_paths = source_paths
    if len(source_paths) != len(target_paths):
        raise UserError(
            f"data: {len(source_paths)} source files but {len(target_paths)} target files; name as many of each"
        )
    if not source_paths:
        raise UserError("data: no files to read; name them with --source and --target or in data.source, data.target")
    sides = []
    for paths, usual_column in ((source_paths, 1), (target_paths, 2)):
        files = [split_column(path) for path in paths]
        for file, _ in files:
            check_file(file)
        sides.append([(file, column or (usual_column if is_table(file) else None)) for file, column in files])
    return _pairs(sides[0], sides[1], mixed, kept)


def has_more_lines(paths: Sequence[str | Path], than: int) -> bool:
    """Whether the files have more lines than `than`; stops reading as soon as it is known."""
    lines = chain.from_iterable(raw_lines(split_column(path)[0]) for path in paths)
    return next(islice(lines, than, None), None) is not None


def check_file(file: Path) -> None:
    """Refuses a missing file and suggests the most similar name in its folder."""
    if file.is_file():
        return
    if file.is_dir():
        raise UserError(f"{file} is a folder; name a file in it{suggestion(file.name, _names(file))}")
    if not file.parent.is_dir():
        raise UserError(f"{file} does not exist, nor does the folder {file.parent}; check the path and data.root")
    raise UserError(f"{file} does not exist{suggestion(file.name, _names(file.parent))}")


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.is_file())[:1000]


def is_table(file: Path) -> bool:
    return ".tsv" in file.suffixes[-2:]


Column = tuple[Path, int | None]
"""A file, and the number of a column or None."""


def _pairs(sources: list[Column], targets: list[Column], mixed: bool, kept: bool) -> Iterator[Pair]:
    streams = [_pairs_of(source, target, kept) for source, target in zip(sources, targets, strict=True)]
    sizes = [source[0].stat().st_size for source in sources]
    pairs = _by_turns(streams, sizes) if mixed else chain.from_iterable(streams)
    first = next(pairs, None)
    if first is None:
        names = ", ".join(str(file) for file, _ in [*sources, *targets])
        raise UserError(f"the corpus is empty: no lines in {names}")
    yield first
    yield from pairs


def _pairs_of(source: Column, target: Column, kept: bool) -> Iterator[Pair]:
    left, right = _lines(*source, kept), _lines(*target, kept)
    for count, (one, other) in enumerate(zip_longest(left, right)):
        if one is None or other is None:
            more = count + 1 + sum(1 for _ in left) + sum(1 for _ in right)
            numbers = (count, more) if one is None else (more, count)
            raise UserError(
                f"{source[0]} has {numbers[0]} lines but {target[0]} has {numbers[1]}; "
                "line n of one must translate line n of the other"
            )
        yield one, other


def _by_turns(streams: Sequence[Iterator[Pair]], sizes: Sequence[int]) -> Iterator[Pair]:
    """Repeatedly yields a block of the stream with the least progress, relative to the sizes of the files."""
    taken = dict.fromkeys(range(len(streams)), 0)
    while taken:
        chosen = min(taken, key=lambda i: taken[i] / max(1, sizes[i]))
        before = taken[chosen]
        for pair in islice(streams[chosen], _BLOCK):
            taken[chosen] += 1
            yield pair
        if taken[chosen] < before + _BLOCK:
            del taken[chosen]


def _lines(file: Path, column: int | None, kept: bool) -> Iterator[str]:
    lines = text_lines(file, *((MOST_IN_MEMORY, LINE_OVERHEAD) if kept else ()))
    return lines if column is None else (_cell(line, column, file, number) for number, line in enumerate(lines, 1))


def text_lines(file: Path, most: int | None = None, overhead: int = 0) -> Iterator[str]:
    """Like `raw_lines`, but decoded, without a byte order mark or a trailing `\\r`."""
    number = 0
    try:
        for number, raw in enumerate(raw_lines(file, LONGEST_LINE, most, overhead), 1):
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            yield raw.removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        bad = error.object[error.start]
        raise UserError(
            f"{file}, line {number}: is not text in UTF-8 (byte {error.start + 1} is 0x{bad:02x}); "
            "convert the file to UTF-8"
        ) from None


def _cell(line: str, column: int, file: Path, number: int) -> str:
    cells = line.split("\t", column)
    if len(cells) < column:
        raise UserError(f"{file}, line {number}: has {len(cells)} column(s), but column {column} is wanted")
    return cells[column - 1]


def raw_lines(file: Path, longest: int = LONGEST_LINE, most: int | None = None, overhead: int = 0) -> Iterator[bytes]:
    """The lines of a plain or compressed file as bytes without `\\n`. One of more than `longest` bytes is refused
    before it is in memory.

    `most` limits the bytes of all lines together; each counts `overhead` more than its length.
    """
    number = total = 0
    try:
        limit = None if most is None else most_in_memory(file, most)
        with open_expanded(file) as stream:
            # Binary files split on \n alone; text mode and splitlines() would also split on U+2028 and others.
            while line := stream.readline(longest + 1):
                number += 1
                total += len(line) + overhead
                line = line.removesuffix(b"\n")
                if len(line) > longest:
                    raise UserError(
                        f"{file}, line {number}: has more than {longest:,} bytes, which are the most of a line; "
                        "check the file or break the line"
                    )
                if limit is not None and total > limit:
                    raise too_large(file, limit, number)
                yield line
    except DAMAGED as error:
        where = f"{file}, after line {number}" if number else f"{file}"
        raise UserError(f"{where}: cannot be read ({error}); check the file") from None


def decode_line(line: bytes, number: int, warn: Callable[[str], None]) -> str:
    """Decodes a line, without the `\\r` of CRLF and the byte order mark; invalid UTF-8 is replaced, with a warning."""
    line = line.removesuffix(b"\r")
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        return line.decode()
    except UnicodeDecodeError:
        warn(f"line {number} is not valid UTF-8; invalid bytes were replaced by U+FFFD")
        return line.decode("utf-8", "replace")
