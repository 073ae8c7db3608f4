"""Text alone, a line an example: what a model is pre-trained on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from regard.data.corpus.reading import read_lines
from regard.data.format._base import Example, Format
from regard.data.format.conll import Conll
from regard.errors import UserError

__all__ = ["PlainLines"]


class PlainLines(Format):
    """Example(line, None), each line once. Files may be compressed, and `pairs.tsv#2` is a column, as for translation.

    Of a .conll file the sentences are taken, word after word. `most` is the number of lines taken from each file, its
    first ones.
    """

    def __init__(self, most: int = 1_000_000) -> None:
        if most < 1:
            raise UserError(f"data.format.most: wants at least 1 line a file, not {most}")
        self.most = most

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        lines = (line for file in files for line in islice(_lines(file), self.most))
        return [Example(line, None) for line in dict.fromkeys(lines) if line.strip()]


def _lines(file: Path) -> Iterable[str]:
    if ".conll" in file.suffixes[-2:]:
        return (" ".join(sentence.input) for sentence in Conll().read([file], "train"))
    return read_lines(file, kept=True)
