"""One file a class, one text a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.data.format._base import Example, Format
from regard.data.format._lines import numbered_lines
from regard.errors import UserError

__all__ = ["LabelledLines"]

ENDINGS = (".gz", ".txt")


class LabelledLines(Format):
    """Every line with the class of its file: the `labels` in the order of the files, or else the files' names.

    Empty lines are passed over.
    """

    def __init__(self, labels: Sequence[str] = ()) -> None:
        if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
            raise UserError('data.format.labels: wants a list of names, for example ["positive", "negative"]')
        self.labels = list(labels)

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
