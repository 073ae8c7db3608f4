"""Validates the header of a safetensors file (names, types, shapes, offsets) before any tensor is read.

Time and memory are bounded for any input: the size and the number of brackets are checked before parsing.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from regard.errors import UserError
from regard.regular_files import open_regular

_BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "I32": 4, "I64": 8, "F16": 2, "BF16": 2, "F32": 4, "F64": 8}
_MAX_HEADER = 16_000_000
_MAX_TENSORS = 100_000
_MAX_RANK = 8


class Described(NamedTuple):
    """One tensor's entry in the header."""

    begin: int
    end: int
    dtype: str
    shape: tuple[int, ...]


class Header(NamedTuple):
    tensors: dict[str, Described]
    notes: dict[str, Any]
    """Our own metadata."""


def read_header(source: bytes | Path) -> Header:
    """The header; raises a UserError unless it describes exactly the bytes that follow."""

    def refuse(why: str) -> UserError:
        where = "weights" if isinstance(source, bytes) else source
        return UserError(f"{where}: not a usable weight file: {why}")

    with _opened(source) as (read, size):
        if size < 8:
            raise refuse("it is shorter than a header")
        length = int.from_bytes(read(8), "little", signed=True)
        if not 2 <= length <= size - 8:
            raise refuse("its header is longer than the file")
        if length > _MAX_HEADER:
            raise refuse(f"its header is larger than {_MAX_HEADER // 1_000_000} MB")
        header = read(length)
    if not header.isascii():
        raise refuse("its header holds characters outside ASCII")
    if header.count(b"{") > _MAX_TENSORS + 2 or header.count(b"[") > 2 * _MAX_TENSORS:
        raise refuse(f"it has more than {_MAX_TENSORS:,} tensors")
    if header.count(b",") > 10 * _MAX_TENSORS:
        raise refuse("its header has too many values")
    try:
        entries = json.loads(header, object_pairs_hook=_tensor_or_table)
    except (ValueError, RecursionError) as error:
        raise refuse(f"its header is not valid ({str(error)[:80]})") from None
    if not isinstance(entries, dict):
        raise refuse("its header is not an object")
    metadata = entries.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise refuse("its metadata is not text")
    if len(entries) > _MAX_TENSORS:
        raise refuse(f"it has more than {_MAX_TENSORS:,} tensors")

    for name, tensor in entries.items():
        if not isinstance(tensor, Described):
            raise refuse(f"{name[:80]!r} is not described by dtype, shape and data_offsets")
    position = 0
    for tensor in sorted(entries.values()):
        if tensor.begin != position:
            raise refuse("its tensors overlap or leave a gap")
        position = tensor.end
    if position != size - 8 - length:
        raise refuse("its tensors do not fill the file")
    return Header(entries, _notes(metadata, refuse))


def _tensor_or_table(pairs: list[tuple[str, Any]]) -> Described | dict[str, Any]:
    """Called for each parsed JSON object: a tensor entry, or another table."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    if found.keys() != {"dtype", "shape", "data_offsets"}:
        return found
    kind, shape, offsets = found["dtype"], found["shape"], found["data_offsets"]
    if not isinstance(kind, str) or kind not in _BYTES:
        raise ValueError("a dtype is not known")
    if not isinstance(shape, list) or len(shape) > _MAX_RANK or not all(map(_is_count, shape)):
        raise ValueError("a shape is not possible")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise ValueError("offsets are not possible")
    if math.prod(shape) * _BYTES[kind] != offsets[1] - offsets[0]:
        raise ValueError("a tensor has another size than its shape says")
    return Described(offsets[0], offsets[1], kind, tuple(shape))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _notes(metadata: Mapping[str, str], refuse: Callable[[str], UserError]) -> dict[str, Any]:
    try:
        notes = json.loads(metadata.get("regard", "{}"))
    except (ValueError, RecursionError):
        notes = None
    if not isinstance(notes, dict):
        raise refuse("its metadata is not valid")
    return notes


@contextlib.contextmanager
def _opened(source: bytes | Path) -> Iterator[tuple[Callable[[int], bytes], int]]:
    if isinstance(source, bytes):
        yield _reader(source), len(source)
        return
    try:
        with open_regular(source) as file:
            yield file.read, os.fstat(file.fileno()).st_size
    except OSError as error:
        raise UserError(f"{source}: cannot be read ({error.strerror})") from None


def _reader(data: bytes) -> Callable[[int], bytes]:
    position = 0

    def read(count: int) -> bytes:
        nonlocal position
        position += count
        return data[position - count : position]

    return read
