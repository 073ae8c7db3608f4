"""Tagged sentences in CoNLL format: one word and its tag per line, an empty line between sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.format._base import Example, Format, Sample
from regard.data.format._lines import numbered_lines
from regard.errors import UserError

__all__ = ["Conll"]


class Conll(Format):
    """Example(words, tags). Columns are separated by tabs, or by spaces in lines without a tab, and counted from 1.

    Any line of white space alone ends a sentence.
    """

    def __init__(self, word: int = 1, tag: int = 2) -> None:
        if min(word, tag) < 1 or word == tag:
            raise UserError(f"data.format: word = {word} and tag = {tag} are not two columns, counted from 1")
        self.word, self.tag = word, tag

    @classmethod
    def sample(cls) -> Sample:
        text = b"Ada\tB-person\nruns\tO\n\nNobody\tO\n"
        return Sample({"train.conll": text}, [Example(["Ada", "runs"], ["B-person", "O"]), Example(["Nobody"], ["O"])])

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        return [example for file in files for example in self._sentences(file)]

    def _sentences(self, file: Path) -> Iterator[Example]:
        words: list[str] = []
        tags: list[str] = []
        for number, line in numbered_lines(file):
            if line.strip():
                word, tag = self._cells(line, file, number)
                words.append(word)
                tags.append(tag)
            elif words:
                yield Example(words, tags)
                words, tags = [], []
        if words:
            yield Example(words, tags)

    def _cells(self, line: str, file: Path, number: int) -> tuple[str, str]:
        cells = line.split("\t") if "\t" in line else line.split()
        if len(cells) < max(self.word, self.tag):
            raise UserError(
                f"{file}, line {number}: has {len(cells)} column(s), but column {max(self.word, self.tag)} is wanted"
            )
        word, tag = cells[self.word - 1].strip(), cells[self.tag - 1].strip()
        if not word or not tag:
            raise UserError(f"{file}, line {number}: has no {'tag' if word else 'word'}; write both")
        return word, tag
