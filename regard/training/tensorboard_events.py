"""Writes scalars as TensorBoard event files without importing TensorBoard, which is slow to import.

A file is a sequence of records: length, checksum, message, checksum. A message is the protocol buffer `Event` with
wall_time = 1, step = 2, file_version = 3, summary = 5 (value = 1: tag = 1, simple_value = 2) and session_log = 7.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path


class EventFile:
    """One event file in a folder; TensorBoard discards events of earlier files after `step`."""

    def __init__(self, folder: Path, step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads a folder's files in the order of their names, so the time comes first
        path = folder / f"events.out.tfevents.{time.time_ns() // 1000:017d}.{os.getpid()}.regard"
        self._file = path.open("wb")
        self._write(_bytes(3, b"brain.Event:2"))
        self._write(_integer(2, step + 1) + _bytes(7, _integer(1, 1)))  # session_log: START

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        summary = b"".join(
            _bytes(1, _bytes(1, tag.encode()) + b"\x15" + struct.pack("<f", value)) for tag, value in values.items()
        )
        self._write(_integer(2, step) + _bytes(5, summary))

    def close(self) -> None:
        self._file.close()

    def _write(self, message: bytes) -> None:
        message = b"\x09" + struct.pack("<d", time.time()) + message
        length = struct.pack("<Q", len(message))
        self._file.write(length + _masked(length) + message + _masked(message))
        self._file.flush()


def _integer(field: int, value: int) -> bytes:
    return bytes([field << 3]) + _variable(value)


def _bytes(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _variable(len(value)) + value


def _variable(value: int) -> bytes:
    digits = []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def _masked(data: bytes) -> bytes:
    """CRC-32C, rotated and offset as the record format requires."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


_TABLE = [_entry(value) for value in range(256)]
