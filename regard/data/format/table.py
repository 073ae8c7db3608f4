"""Time series in CSV files (or .csv.gz): a header, then one row per step; the first column may hold timestamps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.format._base import Example, Format, Sample
from regard.data.format._made import PARTS
from regard.data.format._series import Span
from regard.data.input.series import read_table
from regard.errors import UserError, suggestion

__all__ = ["Table"]

SHARES = (0.7, 0.1, 0.2)


class Table(Format):
    """Example(float32 (rows, columns), Span), one per file.

    `borders` splits each file by time into train, valid and test: in rows (later rows are dropped) or in shares of all
    rows; when empty, a file belongs to the part that names it. Each part also holds all earlier rows as context, so
    that its first forecast begins exactly at the border. `columns` selects and orders the columns.
    """

    def __init__(self, columns: Sequence[str] = (), borders: Sequence[Any] = SHARES) -> None:
        numbers = all(type(size) in (int, float) for size in borders)
        if not numbers or len(borders) not in (0, 3) or any(size < 0 for size in borders):
            raise UserError("data.format.borders: wants three sizes, of train, valid and test, or none ([])")
        self.shares = bool(borders) and all(size <= 1 for size in borders)
        if not self.shares and any(size != int(size) for size in borders):
            raise UserError("data.format.borders: wants whole rows, or shares that are at most 1")
        if self.shares and sum(borders) > 1 + 1e-9:
            raise UserError(f"data.format.borders: the shares make {sum(borders):g}; they can make 1 at most")
        self.columns, self.borders = list(columns), list(borders)

    @classmethod
    def sample(cls) -> Sample:
        rows = "".join(f"2024-01-{day:02},{day / 4}\n" for day in range(1, 11))
        first = np.arange(1, 8, dtype=np.float32)[:, None] / 4  # 70 % of ten rows
        return Sample({"load.csv": f"date,load\n{rows}".encode()}, [Example(first, Span(0, ("load",)))])

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        examples = [self._read(file, PARTS.index(part)) for file in files]
        for file, example in zip(files, examples):
            if example.target.columns != examples[0].target.columns:
                raise UserError(f"{file}: has other columns than {files[0]}; name those that both have in data.format")
        return [example for example in examples if len(example.input) > example.target.begin]

    def _read(self, file: Path, part: int) -> Example:
        table = read_table(file)
        for name in self.columns:
            if name not in table.columns:
                raise UserError(f"{file}: has no column '{name}'{suggestion(name, table.columns)}")
        columns = self.columns or table.columns
        values = table.values[:, [table.columns.index(name) for name in columns]]
        begin, end = self._rows(len(values), part, file)
        return Example(values[:end], Span(begin, tuple(columns)))

    def _rows(self, rows: int, part: int, file: Path) -> tuple[int, int]:
        if not self.borders:
            return 0, rows
        each = [rows * size for size in self.borders] if self.shares else self.borders
        ends = np.cumsum([0, *each])
        if ends[-1] > rows * (1 + 1e-9):
            raise UserError(f"{file}: has {rows:,} rows, but data.format.borders asks for {int(ends[-1]):,}")
        return round(ends[part]), round(ends[part + 1])
