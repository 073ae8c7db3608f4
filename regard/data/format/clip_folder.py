"""Clips sorted into folders: CLASS/name.gif in a zip file or in a folder; the folder's name is the class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from regard.data.archive import open_archive
from regard.data.format._base import Example, Format, Sample
from regard.data.format._clips import Clips
from regard.data.format._sample_files import FRAMES, gif, zipped
from regard.data.input.clip import decode_gif
from regard.errors import UserError

__all__ = ["ClipFolder"]


class ClipFolder(Format):
    """Every animated GIF with the name of its folder. Other files are ignored."""

    def __init__(self, shrink: int = 256) -> None:
        """Scales larger frames to a short side of `shrink` pixels; 0: never."""
        self.shrink = shrink

    @classmethod
    def sample(cls) -> Sample:
        clip = gif(FRAMES)
        files = {"train.zip": zipped({"wave/one.gif": clip})}
        return Sample(files, [Example(decode_gif(clip, "one.gif")[0], "wave")])

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        clips, examples = Clips(self.shrink), []
        for file in files:
            with open_archive(file) as archive:
                names = [name for name in archive.names if name.lower().endswith(".gif")]
                if not names:
                    raise UserError(f"{file}: there are no clips in it; name them CLASS/name.gif")
                for name in names:
                    label = PurePosixPath(name).parent.name
                    if not label:
                        raise UserError(f"{archive.where(name)} is in no folder; put it into one named after its class")
                    examples.append(Example(clips.read(archive, name), label))
        return examples
