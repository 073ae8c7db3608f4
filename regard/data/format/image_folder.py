"""Pictures sorted into folders by class: CLASS/name.jpg, in a zip file or a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from regard.data.archive import open_archive
from regard.data.format._base import Example, Format, Sample
from regard.data.format._pictures import Pictures
from regard.data.format._sample_files import png, zipped
from regard.data.picture import ENDINGS
from regard.errors import UserError

__all__ = ["ImageFolder"]


class ImageFolder(Format):
    """Every picture with the name of its folder. Files without a picture's extension are skipped."""

    def __init__(self, shrink: int = 256) -> None:
        """Larger pictures are shrunk to a short side of `shrink` pixels while reading; 0 keeps every size."""
        self.pictures = Pictures(shrink)

    @classmethod
    def sample(cls) -> Sample:
        dark, light = np.arange(96, dtype=np.uint8).reshape(2, 4, 4, 3)
        archive = zipped({"dark/1.png": png(dark), "light/1.png": png(light)})
        return Sample({"train.zip": archive}, [Example(dark, "dark"), Example(light, "light")])

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        examples: list[Example] = []
        for file in files:
            with open_archive(file) as archive:
                names = [name for name in archive.names if name.lower().endswith(ENDINGS)]
                if not names:
                    raise UserError(f"{file}: there are no pictures in it; name them CLASS/name.jpg")
                for name in names:
                    label = PurePosixPath(name).parent.name
                    if not label:
                        raise UserError(f"{archive.where(name)} lies in no folder; put it into one named as its class")
                    examples.append(Example(self.pictures.read(archive, name), label))
        return examples
