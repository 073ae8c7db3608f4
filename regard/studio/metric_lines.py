"""Read the metrics of a training run (metrics.jsonl) while another process writes them. Needs no torch.

The file is untrusted: of a line, only known fields with numbers and texts in range are used.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

AT_ONCE = 2**24
"""The most bytes of the file that are read for one answer."""
MOST_BYTES, MOST_LINES = 2**19, 2000
"""The most of log entries, and of validations, in one answer; longer files are thinned."""
NUMBERS = ("time", "epoch", "loss", "learning_rate", "norm", "units", "units_per_second")
MOST_LAYERS, MOST_SCORES, MOST_SAMPLES, LONGEST_NAME, LONGEST_TEXT = 256, 32, 32, 100, 4000
MARKED = 4096
"""Bytes before the last read position that identify the file. They include the time of a line."""


@dataclass
class Part:
    """The lines of a file from some position on."""

    logs: list[dict[str, Any]]
    validations: list[dict[str, Any]]
    at: int
    """The position to continue from."""
    mark: str
    """Identifies the file as the one that was read so far."""
    anew: bool
    """True where this begins at the start, whatever was requested: a resumed run rewrites its file."""
    more: bool
    every: int = 1
    """Every how many log entries one is included. The same value for the rest of a long file thins it evenly."""


def open_plain(path: Path) -> int | None:
    """Opens a regular file; None where it is missing, a link or something else."""
    try:
        flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        file = os.open(path, os.O_RDONLY | flags)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        return None
    return file


def read_plain(path: Path, most: int, last: bool = False) -> bytes:
    """The first or last bytes of a regular file; nothing where it is none."""
    file = open_plain(path)
    if file is None:
        return b""
    with open(file, "rb") as opened:
        if last:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - most))
        return opened.read(most)


def read_on(path: Path, since: int = 0, mark: str = "", every: int = 1) -> Part:
    """The lines written after `since`. An incomplete last line is left for the next call."""
    file = open_plain(path)
    if file is None:
        return Part([], [], 0, "", anew=since > 0, more=False)
    with open(file, "rb") as opened:
        anew = since > os.fstat(file).st_size or bool(mark and since and mark != _mark(opened, since))
        begin = 0 if anew else since
        opened.seek(begin)
        read = opened.read(AT_ONCE)
        whole = read.rfind(b"\n") + 1
        if not whole and len(read) == AT_ONCE:  # no valid line is that long: skip it
            whole = len(read)
        mark = _mark(opened, begin + whole)
    lines: tuple[list[bytes], list[bytes]] = ([], [])  # log entries, validations
    for line in read[:whole].split(b"\n"):
        if line and len(line) <= MOST_BYTES:
            lines[b'"valid_' in line].append(line)
    every = max(every, thinning(lines[0]))
    kept = [*thinned(lines[0], every), *thinned(lines[1], thinning(lines[1]))]
    found = [one for line in kept if (one := checked(line))]
    logs, validations = ([one for one in found if ("scores" in one) is scored] for scored in (False, True))
    return Part(logs, validations, begin + whole, mark, anew, len(read) == AT_ONCE, every)


def _mark(file: BinaryIO, at: int) -> str:
    file.seek(max(0, at - MARKED))
    return f"{os.fstat(file.fileno()).st_ino:x}-{hashlib.sha256(file.read(min(at, MARKED))).hexdigest()[:16]}"


def thinning(lines: list[bytes]) -> int:
    """How many times more lines there are than fit into an answer."""
    return max(1, -(-len(lines) // MOST_LINES), -(-sum(map(len, lines)) // MOST_BYTES))


def thinned(lines: list[bytes], every: int) -> list[bytes]:
    """Every `every`-th line, including the last."""
    return lines[::-1][::every][::-1]


def lines_backwards(text: bytes) -> Iterator[dict[str, Any]]:
    return (found for line in reversed(text.split(b"\n")) if (found := checked(line)))


def checked(line: bytes) -> dict[str, Any] | None:
    """The valid fields of a line; None for an invalid line. A validation has `scores`."""
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, dict) or not _is_count(read.get("step")):
        return None
    found: dict[str, Any] = {"step": read["step"], "time": _number(read.get("time"))}
    scores = {name.removeprefix("valid_"): value for name, value in read.items() if name.startswith("valid_")}
    if scores:
        samples = read.get("samples")
        listed = samples[:MOST_SAMPLES] if isinstance(samples, list) else []
        texts = [_texts(sample) for sample in listed if isinstance(sample, dict)]
        return {**found, "scores": _numbers(scores, MOST_SCORES), "samples": texts}
    found |= {name: _number(read[name]) for name in NUMBERS if name in read}
    if isinstance(read.get("layers"), dict):
        found["layers"] = _numbers(read["layers"], MOST_LAYERS)
    return found


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300 or math.isnan(value):
        return None
    return value


def _numbers(values: dict[str, Any], most: int) -> dict[str, float | int | None]:
    return {_text(name, LONGEST_NAME): _number(value) for name, value in list(values.items())[:most]}


def _texts(sample: dict[str, Any]) -> dict[str, str]:
    texts = {name: sample.get(name) for name in ("source", "output", "reference")}
    return {name: _text(text, LONGEST_TEXT) if isinstance(text, str) else "" for name, text in texts.items()}


def _text(text: str, longest: int) -> str:
    """A text cut to a length, without lone surrogates."""
    return text[:longest].encode("utf-8", "replace").decode()
