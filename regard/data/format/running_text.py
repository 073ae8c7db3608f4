"""Running text for language models: each plain or compressed file is one document, kept as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.data.bounded import read_text
from regard.data.format._base import Example, Format, Sample
from regard.errors import UserError

__all__ = ["RunningText"]

BYTES = 1_000_000_000
UNPACKED = 2_000_000_000


class RunningText(Format):
    """The first `share` of every file is for training, the rest for validation and test.

    So name the same files in `train`, `valid` and `test`. With a `share` of 1 every part reads whole files.
    """

    def __init__(self, share: float = 0.9) -> None:
        if not 0 < share <= 1:
            raise UserError(f"data.format.share: wants a part of the text above 0 and up to 1, not {share}")
        self.share = share

    @classmethod
    def sample(cls) -> Sample:
        return Sample({"play.txt": b"KING: who is there?\n"}, [Example("", "KING: who is there")])

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        return [Example("", self._part(file, part)) for file in files]

    def _part(self, file: Path, part: str) -> str:
        text = read_text(file, BYTES, UNPACKED)
        cut = int(len(text) * self.share)
        found = text if self.share == 1 else text[:cut] if part == "train" else text[cut:]
        if not found.strip():
            raise UserError(f"{file}: too little text for the part '{part}'; add some, or change data.format.share")
        return found
