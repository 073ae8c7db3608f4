"""Pictures and what people said of them: a zip of pictures, and a table `file name<TAB>caption`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from regard.data.archive import open_archive
from regard.data.corpus.reading import read_pairs
from regard.data.format._base import Example, Format
from regard.data.format._pictures import Pictures
from regard.errors import UserError

__all__ = ["Captions"]


class Captions(Format):
    """To train on, an example for every caption; else one for every picture, with the list of all its captions."""

    def __init__(self, shrink: int = 256) -> None:
        """Of a larger picture, the short side is brought to `shrink` pixels as it is read; 0 leaves all as they are."""
        self.pictures = Pictures(shrink)

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        tables = [file for file in files if ".tsv" in file.suffixes[-2:]]
        archives = [file for file in files if file not in tables]
        if len(tables) != 1 or len(archives) != 1:
            raise UserError("data.format: captions wants two files a part, such as train.zip and train.captions.tsv.gz")
        said: dict[str, list[str]] = {}
        for name, caption in read_pairs(tables, [], kept=True):
            if caption.strip():
                said.setdefault(name, []).append(caption.strip())
        examples: list[Example] = []
        with open_archive(archives[0]) as archive:
            paths = {PurePosixPath(path).name: path for path in archive.names}
            for name, captions in said.items():
                if name not in paths:
                    raise UserError(f"{tables[0]}: speaks of {name!r}, which is not in {archives[0]}; add it")
                pixels = self.pictures.read(archive, paths[name])
                targets = captions if part == "train" else [captions]
                examples += [Example(pixels, target) for target in targets]
        return examples
