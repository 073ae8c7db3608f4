"""Pictures sorted into folders: CLASS/name.jpg in a zip file or in a folder; the folder's name is the class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from regard.data.archive import open_archive
from regard.data.format._base import Example, Format
from regard.data.format._pictures import Pictures
from regard.data.picture import ENDINGS
from regard.errors import UserError

__all__ = ["ImageFolder"]


class ImageFolder(Format):
    """Every picture with the name of the folder it lies in. A file that is none by its name is passed over."""

    def __init__(self, shrink: int = 256) -> None:
        """Of a larger picture, the short side is brought to `shrink` pixels as it is read; 0 leaves all as they are."""
        self.pictures = Pictures(shrink)

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
