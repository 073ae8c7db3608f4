"""Unlabelled text, one example per line, for pre-training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from regard.data.corpus.reading import read_lines
from regard.data.format._base import Example, Format, Sample
from regard.data.format.conll import Conll
from regard.errors import UserError

__all__ = ["PlainLines"]


class PlainLines(Format):
    """Example(line, None), without duplicates. Files may be compressed, and `pairs.tsv#2` is a column of a table.

    Of a .conll file the words of each sentence are joined by spaces. `most` limits the lines read from each file.
    """

    def __init__(self, most: int = 1_000_000) -> None:
        if most < 1:
            raise UserError(f"data.format.most: wants at least 1 line a file, not {most}")
        self.most = most

    @classmethod
    def sample(cls) -> Sample:
        text = b"one line\none line\nanother\n"
        return Sample({"train.txt": text}, [Example("one line", None), Example("another", None)])

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        lines = (line for file in files for line in islice(_lines(file), self.most))
        return [Example(line, None) for line in dict.fromkeys(lines) if line.strip()]


def _lines(file: Path) -> Iterable[str]:
    if ".conll" in file.suffixes[-2:]:
        return (" ".join(sentence.input) for sentence in Conll().read([file], "train"))
    return read_lines(file, kept=True)
