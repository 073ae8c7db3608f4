"""The weights of a model folder as NumPy arrays, one at a time, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.errors import UserError
from regard.safetensors_header import Header, read_header

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I8": "i1"}


class Matrix(NamedTuple):
    """Rows of float32, or of int8 where each row has a scale: its values are `values * scale`."""

    values: np.ndarray
    scale: np.ndarray | None = None

    def rows(self, start: int, end: int) -> Matrix:
        return Matrix(self.values[start:end], None if self.scale is None else self.scale[start:end])

    def float32(self) -> np.ndarray:
        return self.values if self.scale is None else self.values * self.scale[:, None]


class StoredWeights:
    """A weight file, of which only what is asked for is read.

    `read` remembers the names it was asked for, so that `leftover` can say what a reader did not expect.
    """

    def __init__(self, path: Path):
        self._path = path
        header = read_header(path)
        self._tensors, self._scaled = header.tensors, _scaled(path, header)
        end = max((tensor.end for tensor in header.tensors.values()), default=0)
        self._start = path.stat().st_size - end
        self._asked: set[str] = set()
        self.int8 = bool(self._scaled)

    def matrix(self, name: str, *shape: int) -> Matrix:
        """A weight of that shape; kept as int8 if it is stored so."""
        values = self._read(name, shape)
        if name not in self._scaled:
            return Matrix(self._finite(name, values))
        scale = self._read(f"{name}.scale", shape[:1])
        with np.errstate(over="ignore"):
            self._finite(name, 128 * scale)  # beyond what any value times its scale can be
        return Matrix(values, scale)

    def vector(self, name: str, length: int) -> np.ndarray:
        return self.matrix(name, length).float32()

    def leftover(self) -> str | None:
        """A weight that nobody asked for."""
        return next(iter(self._tensors.keys() - self._asked), None)

    def _read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        found = self._tensors.get(name)
        if found is None:
            raise UserError(f"{self._path}: weight {name[:80]!r} is missing")
        if found.shape != shape:
            raise UserError(f"{self._path}: weight '{name}' has shape {found.shape} instead of {shape}")
        if found.dtype not in _DTYPES:
            raise UserError(f"{self._path}: weight '{name}' holds {found.dtype} instead of floating-point numbers")
        self._asked.add(name)
        with self._path.open("rb") as file:
            file.seek(self._start + found.begin)
            data = file.read(found.end - found.begin)
        try:
            values = np.frombuffer(data, _DTYPES[found.dtype]).reshape(shape)
        except ValueError:
            raise UserError(f"{self._path}: this file changed while it was read") from None
        if found.dtype == "BF16":  # the upper half of a float32
            return (values.astype(np.uint32) << 16).view(np.float32)
        with np.errstate(over="ignore"):  # infinity, which is refused
            return values if found.dtype == "I8" else values.astype(np.float32, copy=False)

    def _finite(self, name: str, values: np.ndarray) -> np.ndarray:
        if values.dtype == np.int8:
            raise UserError(f"{self._path}: weight '{name}' holds int8 without a scale; take another copy of the file")
        if not np.isfinite(values).all():
            raise UserError(f"{self._path}: {name[:80]!r} holds values that are not finite numbers")
        return values


def _scaled(path: Path, header: Header) -> set[str]:
    """The weights that are stored as int8; each must be a matrix and have a scale for every row."""
    names = header.notes.get("scaled", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"{path}: not a usable weight file: its metadata is not valid")
    for name in names:
        weight, scale = header.tensors.get(name), header.tensors.get(f"{name}.scale")
        if not weight or weight.dtype != "I8" or len(weight.shape) != 2 or not scale or scale.dtype != "F32":
            raise UserError(f"{path}: {name[:80]!r} has no usable scale; take another copy of the file")
    return set(names)
