"""The structure of a GGUF file: metadata, and where each tensor is. Every size is checked before memory is allocated.

The library `gguf` reads such files, too, but takes their counts as true; here it only turns blocks into numbers.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.errors import UserError
from regard.regular_files import open_regular

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_KEYS, _MOST_TENSORS, _MOST_ENTRIES = 10_000, 100_000, 1 << 22
_MOST_HEADER = 1 << 28
"""Bytes of metadata."""
_MOST_ELEMENTS = 1 << 36
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
BLOCKS = {
    "F32": (0, 1, 4),
    "F16": (1, 1, 2),
    "Q4_0": (2, 32, 18),
    "Q4_1": (3, 32, 20),
    "Q5_0": (6, 32, 22),
    "Q5_1": (7, 32, 24),
    "Q8_0": (8, 32, 34),
    "Q2_K": (10, 256, 84),
    "Q3_K": (11, 256, 110),
    "Q4_K": (12, 256, 144),
    "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210),
    "BF16": (30, 1, 2),
}
"""Number, and the elements and bytes of a block, of each type of tensor."""
_TYPES = {number: (name, elements, size) for name, (number, elements, size) in BLOCKS.items()}


class Place(NamedTuple):
    shape: tuple[int, ...]
    kind: str
    offset: int
    size: int


class GGUFFile:
    """A context manager: the file is open inside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: BinaryIO = open_regular(path)
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self.metadata: dict[str, Any] = {}
            self.tensors: dict[str, Place] = {}
            self._read_header()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> GGUFFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def refuse(self, why: str) -> UserError:
        return UserError(f"{self.path}: not a usable GGUF file: {why}")

    def numbers(self, name: str) -> Tensor:
        """One tensor in float32, as the library `gguf` makes it of its blocks."""
        place = self.tensors[name]
        self._file.seek(place.offset)
        raw = np.frombuffer(self._take(place.size, bounded=False), dtype=np.uint8)
        if place.kind in ("F32", "F16"):
            found = raw.view("<f4" if place.kind == "F32" else "<f2").astype(np.float32)
        else:
            found = _dequantised(raw, place.kind)
        return torch.from_numpy(np.ascontiguousarray(found.reshape(place.shape)))

    # ------------------------------------------------------------------------------------------------------- the header

    def _read_header(self) -> None:
        if self._size < 24 or self._take(4) != MAGIC:
            raise self.refuse("it does not begin with GGUF")
        (version,) = self._unpack("I")
        if version not in _VERSIONS:
            raise self.refuse(f"version {version} is not known here")
        tensors, keys = self._unpack("QQ")
        if keys > _MOST_KEYS or tensors > _MOST_TENSORS:
            raise self.refuse(f"it states {tensors:,} tensors and {keys:,} keys")
        for _ in range(keys):
            key = self._text("a key")
            if key in self.metadata:
                raise self.refuse(f"the key {key[:60]!r} is there twice")
            self.metadata[key] = self._value(key, *self._unpack("I"))
        found = [self._tensor() for _ in range(tensors)]
        alignment = self.metadata.get("general.alignment", 32)
        if type(alignment) is not int or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
            raise self.refuse(f"its alignment is {str(alignment)[:20]}")
        start = -(-self._file.tell() // alignment) * alignment
        for name, place in found:
            if name in self.tensors:
                raise self.refuse(f"the tensor {name[:60]!r} is there twice")
            self.tensors[name] = place._replace(offset=start + place.offset)
        self._check_places(start, self.tensors.values())

    def _check_places(self, start: int, places: Iterable[Place]) -> None:
        """Inside the file, and none on top of another: the file then bounds what all of them take."""
        end = start
        for place in sorted(places, key=lambda place: place.offset):
            if place.offset < end:
                raise self.refuse("two of its tensors overlap")
            end = place.offset + place.size
            if end > self._size:
                raise self.refuse("a tensor ends after the file; take another copy")

    def _tensor(self) -> tuple[str, Place]:
        name = self._text("a tensor's name")
        (rank,) = self._unpack("I")
        if not 1 <= rank <= 4:
            raise self.refuse(f"the tensor {name[:60]!r} has {rank:,} dimensions")
        sizes = self._unpack(f"{rank}Q")
        kind, offset = self._unpack("IQ")
        if kind not in _TYPES:
            raise self.refuse(f"the tensor {name[:60]!r} is of a type that is not known here ({kind})")
        label, elements, size = _TYPES[kind]
        total = math.prod(sizes)
        if offset > self._size:
            raise self.refuse(f"the tensor {name[:60]!r} begins after the file; take another copy")
        if not 0 < total <= _MOST_ELEMENTS or sizes[0] % elements:
            raise self.refuse(f"the tensor {name[:60]!r} has the absurd shape {tuple(reversed(sizes))}")
        return name, Place(tuple(reversed(sizes)), label, offset, total // elements * size)

    def _value(self, key: str, kind: int) -> Any:
        if kind == _STRING:
            return self._text(key)
        if kind in _SCALARS:
            return self._unpack(_SCALARS[kind])[0]
        if kind != _ARRAY:
            raise self.refuse(f"{key[:60]!r} is of a type that is not known here ({kind})")
        entry, count = self._unpack("IQ")
        if count > _MOST_ENTRIES:
            raise self.refuse(f"{key[:60]!r} has {count:,} entries")
        if entry == _STRING:
            return [self._text(key) for _ in range(count)]
        if entry not in _SCALARS:
            raise self.refuse(f"{key[:60]!r} holds a type that is not known here ({entry})")
        return list(self._unpack(f"{count}{_SCALARS[entry]}"))

    def _text(self, what: str) -> str:
        (length,) = self._unpack("Q")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            raise self.refuse(f"{what[:60]!r} is not UTF-8") from None

    def _unpack(self, form: str) -> tuple[Any, ...]:
        form = "<" + form
        return struct.unpack(form, self._take(struct.calcsize(form)))

    def _take(self, size: int, bounded: bool = True) -> bytes:
        at = self._file.tell()
        if bounded and at + size > _MOST_HEADER:
            raise self.refuse(f"its metadata are larger than {_MOST_HEADER >> 20} MB")
        if size > self._size - at:
            raise self.refuse("it is cut off; take another copy")
        found = self._file.read(size)
        if len(found) < size:
            raise self.refuse("it is cut off; take another copy")
        return found


def _dequantised(raw: np.ndarray, kind: str) -> np.ndarray:
    try:
        import gguf
    except ImportError:
        raise UserError("GGUF files need the package gguf; run: pip install 'regard[gguf]'") from None
    number, _, size = BLOCKS[kind]
    found: np.ndarray = gguf.dequantize(raw.reshape(-1, size), gguf.GGMLQuantizationType(number))
    return found
