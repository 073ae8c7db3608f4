"""The tables by which sentencepiece normalises characters (precompiled charsmaps), checked before they are used.

A table may put any text in place of one character. In a file from anyone that could be a megabyte for every letter.
"""

from __future__ import annotations

from collections.abc import Iterator

LONGEST = 256
"""Bytes that a table may put in place of a character; NFKC's longest are 33."""


def is_bounded(table: bytes) -> bool:
    """Whether all replacements are short. They follow a trie, whose size comes first, and end with a zero byte."""
    strings = table[4 + int.from_bytes(table[:4], "little") :]
    return max(map(len, strings.split(b"\0"))) <= LONGEST


def tables(model: bytes) -> list[bytes]:
    """The tables of a sentencepiece model: field 2 of its fields 3 (normaliser) and 5 (denormaliser)."""
    specs = (value for field, value in _fields(model) if field in (3, 5))
    return [value for spec in specs for field, value in _fields(spec) if field == 2]


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a protocol buffer that have a length, by number."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 2:
            size, at = _varint(message, at)
            yield key >> 3, message[at : at + size]
            at += size
        elif kind == 0:
            _, at = _varint(message, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError("not a protocol buffer")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("not a protocol buffer")
