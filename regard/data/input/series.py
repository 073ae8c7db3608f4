"""Time series: several numbers per step, normalised by the mean and spread of each column, and back."""

from __future__ import annotations

import csv
import json
import math
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard.data.bounded import check_size
from regard.data.corpus.reading import text_lines
from regard.data.input._accepted import FILES, as_array, is_array, is_frame, read_named, refused
from regard.data.input._base import Input
from regard.errors import UserError, suggestion

__all__ = ["Series", "Table", "read_table"]

_FILE = "input.json"
BYTES = 50_000_000
UNPACKED = 200_000_000
ROWS = 1_000_000
COLUMNS = 1_000
_TIMES = {"date", "time", "datetime", "timestamp", "year", "quarter", "month", "week", "day", "hour"}
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}([-/.]\d{1,4})?([ T]\d{1,2}:\d\d.*)?|\d{1,2}:\d\d(:\d\d.*)?")


class Table(NamedTuple):
    """A CSV file: columns of numbers, and the timestamps of the rows if there are any."""

    columns: list[str]
    values: np.ndarray
    """float32 (rows, columns)."""
    times: list[str]
    """One per row, as written in the file; empty where there is no such column."""


class Series(Input):
    """float32 (T, F), every column normalised to mean 0 and spread 1 over the training examples."""

    kind: ClassVar[str] = "series"
    varying: ClassVar[bool] = True
    takes: ClassVar[str] = "a series: the path of a CSV file, a DataFrame, or an array of numbers (steps, columns)"

    def __init__(self, mean: Sequence[float], spread: Sequence[float], columns: Sequence[str] = ()) -> None:
        self.mean, self.spread = np.array(mean, dtype=np.float64), np.array(spread, dtype=np.float64)
        self.columns = list(columns)

    @classmethod
    def sample(cls) -> list[np.ndarray]:
        values = np.random.default_rng(0).normal([5, -40], [1, 9], (14, 2)).astype(np.float32)
        return [values[:3], values[3:8], values[8:]]

    @classmethod
    def fit(cls, raws: Sequence[np.ndarray], *, seed: int, columns: Sequence[str] = (), **unknown: Any) -> Series:
        """`columns` are the names of the columns in files that are read later; `seed` has no effect."""
        for name in unknown:
            raise UserError(f"input: no key '{name}'{suggestion(name, ['columns'])}")
        if not raws or not sum(len(raw) for raw in raws):
            raise UserError("input: no steps of any series to learn the means from")
        features = raws[0].shape[1]
        for number, raw in enumerate(raws, 1):
            if raw.shape[1] != features:
                raise UserError(f"input: series {number} has {raw.shape[1]} features, but the first has {features}")
        if columns and len(columns) != features:
            raise UserError(f"input.columns: {len(columns)} names for {features} features; name each or none")
        steps = np.concatenate([raw.astype(np.float64) for raw in raws])
        spread = steps.std(axis=0)
        # Constant columns are only centred: their spread is nothing but rounding errors.
        still = spread <= 1e-7 * np.abs(steps).max(axis=0)
        return cls(steps.mean(axis=0).tolist(), np.where(still, 1.0, spread).tolist(), columns)

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Series:
        try:
            saved = json.loads(files[_FILE])
            mean, spread, columns = saved["mean"], saved["spread"], saved["columns"]
            good = (
                len(mean) == len(spread) > 0
                and all(type(number) is float and math.isfinite(number) for number in [*mean, *spread])
                and min(spread) > 0
                and len(columns) in (0, len(mean))
                and all(type(name) is str for name in columns)
            )
        except (KeyError, TypeError, ValueError, RecursionError):
            good = False
        if not good:
            raise UserError(f"{_FILE}: does not describe series; the model folder is damaged")
        return cls(mean, spread, columns)

    def files(self) -> dict[str, bytes]:
        saved = {
            "kind": self.kind,
            "columns": self.columns,
            "mean": self.mean.tolist(),
            "spread": self.spread.tolist(),
        }
        return {_FILE: json.dumps(saved, ensure_ascii=False).encode()}

    def sizes(self) -> dict[str, int]:
        return {"features": len(self.mean)}

    def read(self, argument: str, note: Callable[[str], None] = lambda text: None) -> np.ndarray:
        """A CSV file with this input's columns in any order; without names, with as many columns."""
        table = read_table(Path(argument))
        if not self.columns:
            if len(table.columns) != len(self.mean):
                raise UserError(
                    f"{argument}: has {len(table.columns)} columns of numbers, but the model reads {len(self.mean)}"
                )
            return table.values
        for name in self.columns:
            if name not in table.columns:
                raise UserError(f"{argument}: has no column '{name}'{suggestion(name, table.columns)}")
        unused = [name for name in table.columns if name not in self.columns]
        if unused:
            note(f"{argument}: not read: {', '.join(unused)}")
        return table.values[:, [table.columns.index(name) for name in self.columns]]

    def is_one(self, given: Any) -> bool:
        return isinstance(given, FILES) or is_frame(given) or is_array(given) or _is_rows(given)

    def accept(self, given: Any) -> np.ndarray:
        if isinstance(given, FILES):
            return read_named(self.read, given, self.takes)
        if is_frame(given):
            values = self._columns_of(given)
        elif is_array(given) or _is_rows(given):
            values = _numbers(given, "the series")
        else:
            raise refused(given, self.takes)
        if values.ndim == 1 and len(self.mean) == 1:
            values = values[:, None]
        self._check_shape(values)
        if not np.isfinite(values).all():
            raise UserError("the series has a hole (a value that is no number); fill it in")
        return values

    def _columns_of(self, frame: Any) -> np.ndarray:
        """This input's columns by name; without names, all numeric columns."""
        names = {str(name): name for name in frame.columns}
        if self.columns:
            for name in self.columns:
                if name not in names:
                    raise UserError(f"the table has no column '{name}'{suggestion(name, names)}")
            return np.stack([_numbers(frame[names[name]], f"column '{name}'") for name in self.columns], axis=1)
        columns = [as_array(frame[name]) for name in names.values()]
        numeric = [column for column in columns if column.dtype.kind in "fiu"]
        if len(numeric) != len(self.mean):
            raise UserError(f"the table has {len(numeric)} columns of numbers, but the model reads {len(self.mean)}")
        return np.stack(numeric, axis=1).astype(np.float64)

    def _check_shape(self, raw: np.ndarray) -> None:
        if raw.ndim != 2 or raw.shape[1] != len(self.mean):
            raise UserError(f"a series of shape {raw.shape}, but the model reads steps of {len(self.mean)} numbers")

    def encode(self, raw: np.ndarray) -> np.ndarray:
        self._check_shape(raw)
        return ((raw - self.mean) / self.spread).astype(np.float32)

    def decode(self, values: np.ndarray) -> np.ndarray:
        """Encoded values (..., F) in their original units."""
        return (values * self.spread + self.mean).astype(np.float32)


def _is_rows(given: Any) -> bool:
    """A list of numbers, or a list of rows of numbers."""
    if not isinstance(given, (list, tuple)) or not given:
        return False
    first = given[0][0] if isinstance(given[0], (list, tuple)) and given[0] else given[0]
    return isinstance(first, Real)


def _numbers(given: Any, where: str) -> np.ndarray:
    values = as_array(given)
    try:
        if values.dtype.kind not in "fiubO":
            raise TypeError
        return values if values.dtype.kind == "f" else values.astype(np.float64)
    except (TypeError, ValueError):
        raise UserError(
            f"{where}: holds something that is no number ({values.dtype}); every value must be one"
        ) from None


def read_table(file: Path) -> Table:
    """A plain or compressed CSV file: a header, then numbers. A first column of timestamps is kept separately."""
    check_size(file, BYTES)
    rows = csv.reader(f"{line}\n" for line in text_lines(file, UNPACKED))
    try:
        return _table(rows, file)
    except csv.Error as error:
        raise UserError(f"{file}, line {rows.line_num}: is not CSV ({error}); check the file") from None


def _table(rows: Any, file: Path) -> Table:
    names = [name.strip() for name in next(rows, [])]
    if not any(names):
        raise UserError(f"{file}: is empty, or its first line is; the first line names the columns")
    if len(names) > COLUMNS:
        raise UserError(f"{file}: has {len(names):,} columns; {COLUMNS:,} are the most")
    if all(_number(name) is not None for name in names):
        raise UserError(f"{file}, line 1: only numbers; the first line must name the columns")
    repeated = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if repeated is not None:
        raise UserError(f"{file}, line 1: two columns are called '{repeated}'; give each a name of its own")
    cells = array("f")
    times: list[str] = []
    first, count, blank = None, 0, 0
    for row in rows:
        if not row:
            blank = blank or rows.line_num
            continue
        if blank:
            raise UserError(f"{file}, line {blank}: is blank, and lines with numbers follow; fill it or take it out")
        if len(row) != len(names):
            raise UserError(
                f"{file}, line {rows.line_num}: has {len(row)} cells, but the first line names {len(names)} columns"
            )
        count += 1
        if count > ROWS:
            raise UserError(f"{file}: has more than {ROWS:,} rows, which are the most")
        if first is None:
            first = int(names[0].lower() in _TIMES or _DATE.fullmatch(row[0].strip()) is not None)
            if first == len(names):
                raise UserError(f"{file}: has no column of numbers beside '{names[0]}'; separate columns by commas")
        if first:
            times.append(row[0].strip())
        for name, cell in zip(names[first:], row[first:]):
            value = _number(cell)
            if value is None or not math.isfinite(value):
                hole = not cell.strip() or value is not None
                what = "nothing is there" if hole else f"'{_shortened(cell)}' is no number"
                raise UserError(f"{file}, line {rows.line_num}, column '{name}': {what}; every cell must hold a number")
            cells.append(value)
    if first is None:
        raise UserError(f"{file}: names columns, but has no rows")
    values = np.array(cells, dtype=np.float32).reshape(count, -1)
    if not np.isfinite(values).all():
        row_, column = np.argwhere(~np.isfinite(values))[0]
        raise UserError(f"{file}, row {row_ + 1}, column '{names[first + column]}': too large a number")
    return Table(names[first:], values, times)


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _shortened(cell: str) -> str:
    text = " ".join(cell.split())
    return text if len(text) <= 30 else text[:29] + "…"
