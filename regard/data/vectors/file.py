"""Word vectors as text, one word per line: `word 0.1 -0.2 ...`, the format of the published GloVe vectors.

A first line of two integers (count and width, as word2vec writes) is skipped. Words may contain spaces, as some
published ones do: the numbers are at the end of the line. Files may be compressed (.gz, .xz, .zst).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from regard.data.corpus.reading import check_file, raw_lines
from regard.data.vectors.near import Vectors
from regard.errors import UserError
from regard.storage import write_file

LONGEST_LINE = 1 << 17
WIDEST = 4096
MOST_NUMBERS = 1 << 31
"""Numbers in all vectors read: 8 GB of memory."""
MOST_LINES = 20_000_000


def write_vectors(path: Path, vectors: Vectors) -> None:
    """Writes a file atomically, with six digits per number."""
    lines = (
        f"{word} {' '.join(f'{value:.6g}' for value in row)}\n"
        for word, row in zip(vectors.words, vectors.values.tolist(), strict=True)
    )
    write_file(path, "".join(lines).encode())


def read_vectors(path: Path, wanted: Collection[str] | None = None) -> Vectors:
    """The vectors of a file, or only of its words in `wanted`; the first one of a repeated word."""
    words: dict[str, int] = {}
    rows: list[np.ndarray] = []
    width = 0
    for width, number, word, numbers in _entries(path):
        if word in words or wanted is not None and word not in wanted:
            continue
        words[word] = len(rows)
        rows.append(_row(path, number, word, numbers))
        if len(rows) * width > MOST_NUMBERS:
            raise UserError(f"{path}, line {number}: more than {MOST_NUMBERS:,} numbers; give a smaller file")
    return Vectors(list(words), np.stack(rows) if rows else np.zeros((0, width), np.float32))


def words_in(path: Path) -> Iterator[str]:
    """The words of a file in its order, without their numbers."""
    return (word for _, _, word, _ in _entries(path))


def width_of(path: Path) -> int:
    """The width of the vectors of a file, from its first line."""
    return next(_entries(path))[0]


def _entries(path: Path) -> Iterator[tuple[int, int, str, list[str]]]:
    """For each line: the width of all vectors, the line number, the word and its numbers as text."""
    check_file(path)
    width = 0
    for number, raw in enumerate(raw_lines(path, LONGEST_LINE), 1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r ")
        except UnicodeDecodeError as error:
            raise UserError(f"{path}, line {number}: byte {error.start + 1} is not valid UTF-8") from None
        if number > MOST_LINES:
            raise UserError(f"{path}, line {number}: more than {MOST_LINES:,} words; give a smaller file")
        cells = line.split(" ")
        if not width:
            if number == 1 and len(cells) == 2 and all(cell.isdecimal() for cell in cells):
                continue
            width = _first_width(path, number, cells)
        if len(cells) <= width:
            raise UserError(
                f"{path}, line {number}: has {len(cells) - 1} numbers after a word, where {width} are wanted; "
                "check the file"
            )
        yield width, number, " ".join(cells[:-width]), cells[-width:]
    if not width:
        raise UserError(f"{path}: holds no vectors; lines are wanted of a word and its numbers")


def _first_width(path: Path, number: int, cells: list[str]) -> int:
    """The count of numbers at the end of the first line."""
    count = 0
    while count < len(cells) - 1 and _finite(cells[-1 - count]):
        count += 1
    if not 1 <= count <= WIDEST:
        raise UserError(
            f"{path}, line {number}: a word and 1 to {WIDEST:,} numbers are wanted, separated by single spaces; "
            f"found {count} numbers"
        )
    return count


def _row(path: Path, number: int, word: str, numbers: list[str]) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):
            row = np.array([float(cell) for cell in numbers], dtype=np.float32)
    except (ValueError, OverflowError):
        wrong = next(cell for cell in numbers if not _finite(cell))
        raise UserError(f"{path}, line {number}: '{wrong[:40]}' is no number; check the file") from None
    if not np.isfinite(row).all():
        raise UserError(f"{path}, line {number}: the vector of '{word[:40]}' is not finite; check the file")
    return row


def _finite(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False
