"""One text file per class, one text per line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.data.format._base import Example, Format, Sample
from regard.data.format._lines import numbered_lines
from regard.errors import UserError

__all__ = ["LabelledLines"]

ENDINGS = (".gz", ".txt")


class LabelledLines(Format):
    """Every line with the class of its file: `labels` in the order of the files, or the files' names.

    Empty lines are skipped.
    """

    def __init__(self, labels: Sequence[str] = ()) -> None:
        if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
            raise UserError('data.format.labels: wants a list of names, for example ["positive", "negative"]')
        self.labels = list(labels)

    @classmethod
    def sample(cls) -> Sample:
        return Sample(
            {"good.txt": b"a fine film\n", "bad.txt": b"a bore\nall noise\n"},
            [Example("a fine film", "good"), Example("a bore", "bad"), Example("all noise", "bad")],
        )

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        if self.labels and len(self.labels) != len(files):
            raise UserError(f"data.{part}: {len(files)} files but {len(self.labels)} labels; give each file its label")
        labels = self.labels or [_stem(file) for file in files]
        return [
            Example(line, label)
            for file, label in zip(files, labels)
            for _, line in numbered_lines(file)
            if line.strip()
        ]


def _stem(file: Path) -> str:
    name = file.name
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name
