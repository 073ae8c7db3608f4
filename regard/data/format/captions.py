"""Captioned pictures: a zip file (or folder) of pictures, and a table `file name<TAB>caption`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from regard.data.archive import open_archive
from regard.data.corpus.reading import read_pairs
from regard.data.format._base import Example, Format, Sample
from regard.data.format._pictures import Pictures
from regard.data.format._sample_files import png, zipped
from regard.errors import UserError

__all__ = ["Captions"]


class Captions(Format):
    """In training, one example per caption; in validation and test, one per picture with the list of its captions."""

    def __init__(self, shrink: int = 256) -> None:
        """Larger pictures are shrunk to a short side of `shrink` pixels while reading; 0 keeps every size."""
        self.pictures = Pictures(shrink)

    @classmethod
    def sample(cls) -> Sample:
        pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
        table = b"dark.png\tA dark square .\ndark.png\tAlmost black .\n"
        return Sample(
            {"train.zip": zipped({"dark.png": png(pixels)}), "train.captions.tsv": table},
            [Example(pixels, "A dark square ."), Example(pixels, "Almost black .")],
        )

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        tables = [file for file in files if ".tsv" in file.suffixes[-2:]]
        archives = [file for file in files if file not in tables]
        if len(tables) != 1 or len(archives) != 1:
            raise UserError("data.format: captions wants two files a part, such as train.zip and train.captions.tsv.gz")
        captions_of: dict[str, list[str]] = {}
        for name, caption in read_pairs(tables, [], kept=True):
            if caption.strip():
                captions_of.setdefault(name, []).append(caption.strip())
        examples: list[Example] = []
        with open_archive(archives[0]) as archive:
            paths = {PurePosixPath(path).name: path for path in archive.names}
            for name, captions in captions_of.items():
                if name not in paths:
                    raise UserError(f"{tables[0]}: speaks of {name!r}, which is not in {archives[0]}; add it")
                pixels = self.pictures.read(archive, paths[name])
                targets = captions if part == "train" else [captions]
                examples += [Example(pixels, target) for target in targets]
        return examples
