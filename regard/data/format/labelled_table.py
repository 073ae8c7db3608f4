"""A text and its class per line, in tab-separated columns (.tsv)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.data.format._base import Example, Format, Sample
from regard.data.format._lines import numbered_lines
from regard.errors import UserError, suggestion

__all__ = ["LabelledTable"]


class LabelledTable(Format):
    """Texts from column `text`, classes from column `label`, counted from 1; `names` maps codes to class names."""

    def __init__(self, text: int = 1, label: int = 2, names: Mapping[str, str] | None = None, header: bool = False):
        if min(text, label) < 1 or text == label:
            raise UserError(f"data.format: text = {text} and label = {label} are not two columns, counted from 1")
        if not isinstance(names, Mapping | None):
            raise UserError('data.format.names: wants a table, such as {0 = "negative", 1 = "positive"}')
        self.text, self.label, self.header = text, label, header
        self.names = dict(names or {})

    @classmethod
    def sample(cls) -> Sample:
        text = b"a fine film\tgood\na bore\tbad\n"
        return Sample({"train.tsv": text}, [Example("a fine film", "good"), Example("a bore", "bad")])

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        return [example for file in files for example in self._read(file)]

    def _read(self, file: Path) -> list[Example]:
        examples = []
        for number, line in numbered_lines(file):
            if not line.strip() or (self.header and number == 1):
                continue
            cells = line.split("\t")
            if len(cells) < max(self.text, self.label):
                raise UserError(
                    f"{file}, line {number}: has {len(cells)} column(s), but column {max(self.text, self.label)} is "
                    "wanted; columns are separated by tabs"
                )
            text, label = cells[self.text - 1], cells[self.label - 1].strip()
            if not text.strip() or not label:
                raise UserError(f"{file}, line {number}: has no {'text' if label else 'label'}; fill it in")
            if self.names and label not in self.names:
                raise UserError(f"{file}, line {number}: label '{label}' has no name{suggestion(label, self.names)}")
            examples.append(Example(text, self.names.get(label, label)))
        return examples
