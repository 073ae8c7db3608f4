"""Numbered lines of text files, with limits on size; the numbers are for error messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard.data.bounded import check_size
from regard.data.corpus.reading import LINE_OVERHEAD, MOST_IN_MEMORY, text_lines

BYTES = 200_000_000


def numbered_lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines of a plain or compressed file, numbered from 1. Line ends are `\\n` or `\\r\\n`."""
    check_size(file, BYTES)
    return enumerate(text_lines(file, MOST_IN_MEMORY, LINE_OVERHEAD), 1)
