"""Lines and pairs of lines from text files, plain or compressed, one at a time. Knows nothing of what is in them."""

from __future__ import annotations

import gzip
import lzma
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedIOBase
from itertools import chain, islice, zip_longest
from pathlib import Path

from regard.errors import UserError, suggestion

Pair = tuple[str, str]

_BLOCK = 1024  # pairs of a file that stay together where files are mixed
_COLUMN = re.compile(r"(.+)#([1-9][0-9]*)")


def split_column(path: str | Path) -> tuple[Path, int | None]:
    """`pairs.tsv#2` is the second column of pairs.tsv; a file whose name really ends so is taken as it is."""
    found = _COLUMN.fullmatch(str(path))
    if found is None or Path(path).exists():
        return Path(path), None
    return Path(found[1]), int(found[2])


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a file, or of one column of a .tsv (the first unless `#N` says which), without their ends."""
    file, column = split_column(path)
    check_file(file)
    return _lines(file, column or (1 if _is_table(file) else None))


def read_pairs(
    source_paths: Sequence[str | Path], target_paths: Sequence[str | Path], mixed: bool = False
) -> Iterator[Pair]:
    """The pairs of one or more files a side. A .tsv alone holds both: column 1 is the source, column 2 the target.

    One file after another or, `mixed`, from all of them by turns, so that they end at about the same time.
    """
    if not target_paths and all(_is_table(split_column(path)[0]) for path in source_paths):
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
        sides.append([(file, column or (usual_column if _is_table(file) else None)) for file, column in files])
    return _pairs(sides[0], sides[1], mixed)


def has_more_lines(paths: Sequence[str | Path], than: int) -> bool:
    """Reads no more of the files than it needs to know."""
    lines = chain.from_iterable(raw_lines(split_column(path)[0]) for path in paths)
    return next(islice(lines, than, None), None) is not None


def check_file(file: Path) -> None:
    """Refuses a file that is not there, with the name nearest to it in its folder."""
    if file.is_file():
        return
    if file.is_dir():
        raise UserError(f"{file} is a folder; name a file in it{suggestion(file.name, _names(file))}")
    if not file.parent.is_dir():
        raise UserError(f"{file} does not exist, nor does the folder {file.parent}; check the path and data.root")
    raise UserError(f"{file} does not exist{suggestion(file.name, _names(file.parent))}")


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.is_file())[:1000]


def _is_table(file: Path) -> bool:
    return ".tsv" in file.suffixes[-2:]


Column = tuple[Path, int | None]
"""A file, or a column of it."""


def _pairs(sources: list[Column], targets: list[Column], mixed: bool) -> Iterator[Pair]:
    streams = [_pairs_of(source, target) for source, target in zip(sources, targets, strict=True)]
    sizes = [source[0].stat().st_size for source in sources]
    pairs = _by_turns(streams, sizes) if mixed else chain.from_iterable(streams)
    first = next(pairs, None)
    if first is None:
        names = ", ".join(str(file) for file, _ in [*sources, *targets])
        raise UserError(f"the corpus is empty: no lines in {names}")
    yield first
    yield from pairs


def _pairs_of(source: Column, target: Column) -> Iterator[Pair]:
    left, right = _lines(*source), _lines(*target)
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
    """A block of the stream that is least far through, again and again; how far is reckoned by the files' sizes."""
    taken = dict.fromkeys(range(len(streams)), 0)
    while taken:
        chosen = min(taken, key=lambda i: taken[i] / max(1, sizes[i]))
        block = list(islice(streams[chosen], _BLOCK))
        taken[chosen] += len(block)
        if len(block) < _BLOCK:
            del taken[chosen]
        yield from block


def _lines(file: Path, column: int | None) -> Iterator[str]:
    number = 0
    try:
        for number, raw in enumerate(raw_lines(file), 1):
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            line = raw.removesuffix(b"\r").decode()
            yield line if column is None else _cell(line, column, file, number)
    except UnicodeDecodeError as error:
        bad = error.object[error.start]
        raise UserError(
            f"{file}, line {number}: byte {error.start + 1} (0x{bad:02x}) is not valid UTF-8; convert the file to UTF-8"
        ) from None


def _cell(line: str, column: int, file: Path, number: int) -> str:
    cells = line.split("\t", column)
    if len(cells) < column:
        raise UserError(f"{file}, line {number}: has {len(cells)} column(s), but column {column} is wanted")
    return cells[column - 1]


def raw_lines(file: Path, longest: int = -1) -> Iterator[bytes]:
    """The lines of a file, plain or compressed, as bytes without their `\\n`; one of more bytes than `longest` is
    refused before it is in memory."""
    number = 0
    try:
        for line in _opened_lines(file, longest):
            number += 1
            line = line.removesuffix(b"\n")
            if 0 <= longest < len(line):
                raise UserError(f"{file}, line {number}: has more than {longest:,} bytes; check the file")
            yield line
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UserError(f"{file}, after line {number}: cannot be read ({error}); check the file") from None


def _opened_lines(file: Path, longest: int = -1) -> Iterator[bytes]:
    """Of a line that has more bytes than `longest` at least one more than those."""
    # Binary files split on \n alone; text mode and splitlines() would also split on U+2028 and others.
    if file.suffix == ".gz":
        with gzip.open(file, "rb") as stream:
            yield from _whole(stream, longest)
    elif file.suffix == ".xz":
        with lzma.open(file, "rb") as stream:
            yield from _whole(stream, longest)
    elif file.suffix == ".zst":
        rest = b""
        for block in _zstandard_blocks(file):
            *whole, rest = (rest + block).split(b"\n")
            yield from whole
            if 0 <= longest < len(rest):
                break
        if rest:
            yield rest
    else:
        with file.open("rb") as plain_stream:
            yield from _whole(plain_stream, longest)


def _whole(stream: BufferedIOBase, longest: int) -> Iterable[bytes]:
    return stream if longest < 0 else iter(lambda: stream.readline(longest + 1), b"")


def _zstandard_blocks(file: Path) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise UserError(f"{file}: reading .zst needs a package; pip install zstandard") from None
    frame = None
    with file.open("rb") as stream:
        while data := stream.read(1 << 17):
            while data:
                frame = frame or zstandard.ZstdDecompressor().decompressobj()
                try:
                    yield frame.decompress(data)
                except zstandard.ZstdError as error:
                    raise OSError(error) from None
                data = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
    if frame is not None:  # the package itself says nothing about a file that was cut off
        raise EOFError("it ends too early")
