"""What formats of text files share: their lines, bounded, each with its number for the message that blames it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard.data.bounded import read_text

BYTES = 200_000_000
UNPACKED = 500_000_000


def numbered_lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file, plain or .gz, counted from 1; `\\n` alone ends one, and a `\\r` before it belongs to it."""
    text = read_text(file, BYTES, UNPACKED)
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        yield number, line.removesuffix("\r")
