"""The binary format of CTranslate2's model.bin: a list of named arrays and of aliases, read one array at a time.

Nothing in the file is trusted: every count is compared with what is left of it before anything is allocated.
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from regard.errors import UserError
from regard.regular_files import open_regular

NEWEST_FORMAT, NEWEST_REVISION = 6, 7
SPECIFICATIONS = {"TransformerSpec": 8, "TransformerBase": 8, "TransformerBig": 16}
"""Names of encoder-decoder models and the number of heads of those that do not state it."""
_TYPES = ("<f4", "i1", "<i2", "<i4", "<f2", "<u2")
"""By CTranslate2's numbers; the last is bfloat16."""
_BFLOAT16 = 5
_TYPE_OF_WIDTH = {1: 1, 2: 2, 4: 0}
"""Formats before 4 state only how wide a number is."""
_OLD_INT16_SCALE = 1000.0
"""Of files that state none."""
_MOST = 100_000
_MOST_DIMENSIONS = 8


class Stored(NamedTuple):
    """Where an array is in the file."""

    shape: tuple[int, ...]
    kind: int
    offset: int
    size: int


class Variables:
    """The arrays of a model.bin by name. It remembers which were asked for, so that `leftover` names what was not."""

    def __init__(self, path: Path):
        self.path = path
        self._stored: dict[str, Stored] = {}
        self._aliases: dict[str, str] = {}
        self._asked: set[str] = set()
        try:
            with open_regular(path) as file:
                self._read_listing(file, os.fstat(file.fileno()).st_size)
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None

    # ------------------------------------------------------------------------------------------------- the listing

    def _read_listing(self, file: BinaryIO, size: int) -> None:
        def exactly(count: int) -> bytes:
            data = file.read(count) if count <= size - file.tell() else b""
            if len(data) < count:
                raise self.refused("it ends too early; take another copy")
            return data

        def number(form: str) -> int:
            return int(struct.unpack(f"<{form}", exactly(struct.calcsize(form)))[0])

        def text() -> str:
            try:
                return exactly(number("H")).removesuffix(b"\0").decode()
            except UnicodeDecodeError:
                raise self.refused("a name in it is not text") from None

        version = number("I")
        if not 2 <= version <= NEWEST_FORMAT:
            raise self.refused(f"its format is number {version}; 2 to {NEWEST_FORMAT} can be read")
        self.specification = text()
        if self.specification not in SPECIFICATIONS:
            raise self.refused(f"it holds a {self.specification[:60]!r}, not an encoder and a decoder that translate")
        revision = number("I")
        if not 2 <= revision <= NEWEST_REVISION:
            raise self.refused(f"its layout is revision {revision}; 2 to {NEWEST_REVISION} can be read")
        self.version = version
        for _ in range(self._count(number("I"))):
            name, rank = text(), number("B")
            if rank > _MOST_DIMENSIONS:
                raise self.refused(f"{name[:80]!r} has {rank} dimensions")
            shape = struct.unpack(f"<{rank}I", exactly(4 * rank))
            kind = number("B")
            if version < 4:
                width, kind = kind, _TYPE_OF_WIDTH.get(kind, -1)
                length = number("I") * width
            else:
                length = number("I")
            if not 0 <= kind < len(_TYPES):
                raise self.refused(f"{name[:80]!r} has a type that is not known")
            if math.prod(shape) * np.dtype(_TYPES[kind]).itemsize != length:
                raise self.refused(f"{name[:80]!r} has another size than its shape says")
            if length > size - file.tell():
                raise self.refused(f"it ends within {name[:80]!r}; take another copy")
            if name in self._stored:
                raise self.refused(f"{name[:80]!r} occurs twice")
            self._stored[name] = Stored(shape, kind, file.tell(), length)
            file.seek(length, os.SEEK_CUR)
        for _ in range(self._count(number("I")) if version >= 3 else 0):
            alias, name = text(), text()
            if name in self._stored and alias not in self._stored:  # CTranslate2 ignores others, too
                self._aliases[alias] = name
        if file.tell() != size:
            raise self.refused("there is more in it than its listing says")

    def _count(self, number: int) -> int:
        if number > _MOST:
            raise self.refused(f"it lists {number:,} arrays; {_MOST:,} are the most")
        return number

    def refused(self, why: str) -> UserError:
        return UserError(f"{self.path}: {why}")

    # -------------------------------------------------------------------------------------------------- the arrays

    def __contains__(self, name: str) -> bool:
        return self._home(name) in self._stored

    def first(self, *names: str) -> str:
        """The first of the names that is there; else the first."""
        return next((name for name in names if name in self), names[0])

    def shape(self, name: str) -> tuple[int, ...]:
        return self._find(name).shape

    def number(self, name: str, default: float) -> float:
        """A scalar: a flag, a number of heads, a scale."""
        if name not in self:
            return default
        stored = self._find(name)
        self._asked.add(self._home(name))
        if math.prod(stored.shape) != 1:
            raise self.refused(f"{name!r} has the shape {stored.shape} instead of being one number")
        return float(self._widened(stored, self._bytes(stored)).reshape(()))

    def is_integer(self, name: str) -> bool:
        return name in self and self._find(name).kind in (1, 2, 3)

    def array(self, name: str, *shape: int) -> np.ndarray:
        """An array as float32, dequantised; with a `shape`, any other is refused."""
        stored = self._find(name)
        if shape and stored.shape != shape:
            raise self.refused(f"{name[:80]!r} has shape {stored.shape} instead of {shape}")
        home = self._home(name)
        self._asked.add(home)
        values = self._widened(stored, self._bytes(stored))
        if stored.kind in (1, 2):
            values = values / self._scale(home, stored)
        elif stored.kind == 3:
            raise self.refused(f"{name[:80]!r} holds integers instead of weights")
        if not np.isfinite(values).all():
            raise self.refused(f"{name[:80]!r} holds values that are not finite numbers")
        return values

    def _scale(self, home: str, stored: Stored) -> np.ndarray:
        """What quantised values are divided by: one number per row of int8, one for all of int16."""
        name = f"{home}_scale"
        if name not in self._stored:
            if stored.kind == 1:
                raise self.refused(f"{home[:80]!r} is stored as int8 without a scale")
            return np.array(_OLD_INT16_SCALE, np.float32)
        self._asked.add(name)
        found = self._stored[name]
        rows = stored.shape[:1] if stored.kind == 1 else ()
        if found.kind != 0 or found.shape not in (rows, (1,) if rows == () else rows):
            raise self.refused(f"the scale of {home[:80]!r} has not one float32 for each of its rows")
        scale = self._widened(found, self._bytes(found))
        if not (np.isfinite(scale) & (scale > 0)).all():
            raise self.refused(f"the scale of {home[:80]!r} is not positive")
        return scale.reshape(rows + (1,) * (len(stored.shape) - len(rows)))

    def same(self, one: str, other: str) -> bool:
        """Whether two names are of one array, or of equal ones."""
        if one not in self or other not in self:
            return False
        if self._home(one) == self._home(other):
            return True
        first, second = self._find(one), self._find(other)
        return first.shape == second.shape and bool(np.array_equal(self.array(one), self.array(other)))

    def leftover(self, ignored: frozenset[str] = frozenset()) -> str | None:
        """The name of an array that nobody asked for."""
        return next((n for n in self._stored if n not in self._asked and n.rpartition("/")[2] not in ignored), None)

    def _home(self, name: str) -> str:
        return self._aliases.get(name, name)

    def _find(self, name: str) -> Stored:
        found = self._stored.get(self._home(name))
        if found is None:
            raise self.refused(f"{name[:80]!r} is missing")
        return found

    def _bytes(self, stored: Stored) -> bytes:
        try:
            with open_regular(self.path) as file:
                file.seek(stored.offset)
                data = file.read(stored.size)
        except OSError as error:
            raise self.refused(f"cannot be read ({error.strerror or error})") from None
        if len(data) < stored.size:
            raise self.refused("this file changed while it was read")
        return data

    def _widened(self, stored: Stored, data: bytes) -> np.ndarray:
        values = np.frombuffer(data, _TYPES[stored.kind]).reshape(stored.shape)
        if stored.kind == _BFLOAT16:  # the upper half of a float32
            return (values.astype(np.uint32) << 16).view(np.float32)
        return values.astype(np.float32)
