"""Pictures and what people said of them: a zip of pictures, and a table `file name<TAB>caption`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.data.corpus.reading import read_pairs
from regard.data.format._base import Example, Format
from regard.data.format._labelled_files import archive_and_table, open_labelled
from regard.data.format._pictures import Pictures

__all__ = ["Captions"]


class Captions(Format):
    """To train on, an example for every caption; else one for every picture, with the list of all its captions."""

    def __init__(self, shrink: int = 256) -> None:
        """Of a larger picture, the short side is brought to `shrink` pixels as it is read; 0 leaves all as they are."""
        self.pictures = Pictures(shrink)

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        pictures, table = archive_and_table(files, ".tsv", "captions")
        said: dict[str, list[str]] = {}
        for name, caption in read_pairs([table], [], kept=True):
            if caption.strip():
                said.setdefault(name, []).append(caption.strip())
        examples: list[Example] = []
        with open_labelled(pictures, table) as labelled:
            for name, captions in said.items():
                pixels = self.pictures.read(labelled.archive, labelled.path(name))
                targets = captions if part == "train" else [captions]
                examples += [Example(pixels, target) for target in targets]
        return examples
