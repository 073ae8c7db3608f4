"""A whole corpus answered in shards: by one process or by many, each line exactly once whatever is killed.

    OUT/001-of-064.txt      a finished shard; `cat OUT/*` is the whole answer, in order
    OUT/.plan.json          what is answered, by what and how: a folder holds one piece of work
    OUT/.001-of-064.lock    held by the process at work on that shard, and free again when it ends, however it ends

A shard takes its name when it is whole, and whoever finds it there leaves it alone. Knows nothing of models: anything
that turns lines into as many texts will do.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from regard.data.corpus.reading import check_file, raw_lines
from regard.errors import UserError
from regard.locking import hold, hold_in_turn

Answer = Callable[[list[bytes], int], list[str]]
"""Lines and the number of the first of them -> as many texts."""
Progress = Callable[[int], None]
"""Hears how many of all lines are done."""

CHUNK = 1 << 20
"""Bytes of lines that are answered together: some ten thousand lines, enough to batch them by length."""
SHARD = 10_000
"""Lines of a shard, unless somebody says how many shards there are."""
MOST_SHARDS = 10_000
PATIENCE = 0.5
"""Seconds between two looks at shards that other processes hold."""


@dataclass(frozen=True)
class Plan:
    """What a folder is for."""

    size: int
    modified: int
    sha256: str
    """Of the input: how many bytes, when they were last changed (in nanoseconds), and what they are."""
    lines: int
    shards: int
    settings: dict[str, Any]
    """All else that the answers depend on."""

    def lines_before(self, shard: int) -> int:
        return self.lines * shard // self.shards


class Shards:
    """A folder of answers to the lines of a file; many processes may work on it at once."""

    def __init__(
        self,
        source: Path,
        folder: Path,
        settings: Mapping[str, Any],
        shards: int | None = None,
        ending: str = "txt",
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Makes the plan, or takes the one that is there; refuses a folder that was begun with anything else."""
        self.source, self.folder, self.ending = source, folder, ending
        check_file(source)
        if shards is not None and not 1 <= shards <= MOST_SHARDS:
            raise UserError(f"shards must lie between 1 and {MOST_SHARDS:,}, not {shards:,}")
        with _refusals(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with hold_in_turn(folder / ".plan.lock"):  # one process counts the lines, the others wait for it
                known = _known_plan(folder)
                self.plan = known or _new_plan(source, folder, settings, shards, note)
        if known:
            _refuse_another(known, source, folder, settings, shards)

    def file(self, shard: int) -> Path:
        digits = max(3, len(str(self.plan.shards)))
        return self.folder / f"{shard + 1:0{digits}}-of-{self.plan.shards:0{digits}}.{self.ending}"

    def done(self) -> int:
        """Lines of all shards that are finished, whoever did it."""
        return self.plan.lines - sum(map(self._size, self._unfinished()))

    def answer(self, answer: Answer, progress: Progress = lambda lines: None) -> None:
        """Works on shards that nobody else has begun, until all are there; takes over from processes that die."""
        while unfinished := self._unfinished():
            if not self._go_through(unfinished, answer, progress):
                progress(self.done())
                time.sleep(PATIENCE)
        self._tidy()

    def _claim(self, shard: int) -> Path:
        return self.folder / f".{self.file(shard).stem}.lock"

    def _tidy(self) -> None:
        """Takes away the claims of processes that were killed after their shard had arrived."""
        for claim in filter(Path.exists, map(self._claim, range(self.plan.shards))):
            with _refusals(self.folder):
                lock = hold(claim)
            if lock is not None:
                with lock:
                    claim.unlink(missing_ok=True)

    def _unfinished(self) -> list[int]:
        there = {path.name for path in self.folder.iterdir()}
        return [shard for shard in range(self.plan.shards) if self.file(shard).name not in there]

    def _size(self, shard: int) -> int:
        return self.plan.lines_before(shard + 1) - self.plan.lines_before(shard)

    def _go_through(self, shards: list[int], answer: Answer, progress: Progress) -> bool:
        """Reads the input once and does what nobody else does; False when others hold all of these shards."""
        lines, at, worked = raw_lines(self.source), 0, False
        for shard in shards:
            file, claim = self.file(shard), self._claim(shard)
            with _refusals(self.folder):
                lock = hold(claim)
            if lock is None:
                continue
            with lock:
                if not file.exists():  # another process may have finished it just before its lock was free
                    deque(islice(lines, self.plan.lines_before(shard) - at), maxlen=0)
                    with _refusals(self.folder), _arriving(file) as out:
                        self._answer_shard(shard, islice(lines, self._size(shard)), answer, out, progress)
                    at, worked = self.plan.lines_before(shard + 1), True
                    progress(self.done())
                claim.unlink(missing_ok=True)  # not earlier: whoever opened it before finds the shard there
        return worked

    def _answer_shard(
        self, shard: int, lines: Iterator[bytes], answer: Answer, out: BinaryIO, progress: Progress
    ) -> None:
        others, before, count = self.done(), self.plan.lines_before(shard), 0
        for chunk in _chunks(lines):
            outputs = answer(chunk, before + count + 1)
            if len(outputs) != len(chunk):
                raise RuntimeError(f"{len(chunk)} lines went in but {len(outputs)} came out")
            out.write("".join(f"{output}\n" for output in outputs).encode("utf-8", "replace"))
            count += len(chunk)
            progress(others + count)
        if count != self._size(shard):
            raise UserError(f"{self.source} has fewer lines than when {self.folder} was begun; choose another folder")


def _known_plan(folder: Path) -> Plan | None:
    try:
        return Plan(**json.loads((folder / ".plan.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise UserError(f"{folder / '.plan.json'} cannot be understood; choose another folder") from None


def _new_plan(
    source: Path, folder: Path, settings: Mapping[str, Any], shards: int | None, note: Callable[[str], None]
) -> Plan:
    if any(not path.name.startswith(".") for path in folder.iterdir()):
        raise UserError(f"{folder} already holds other files; choose a new folder")
    note(f"counting the lines of {source}")
    status = source.stat()
    lines = sum(1 for _ in raw_lines(source))
    usual = min(max(1, -(-lines // SHARD)), MOST_SHARDS)
    plan = Plan(status.st_size, status.st_mtime_ns, _sha256(source), lines, shards or usual, dict(settings))
    with _arriving(folder / ".plan.json") as out:
        out.write((json.dumps(asdict(plan), indent=1) + "\n").encode())
    return plan


def _refuse_another(plan: Plan, source: Path, folder: Path, settings: Mapping[str, Any], shards: int | None) -> None:
    """A copy of the input with another date is the same input."""
    begun, now = dict(plan.settings), dict(settings)
    if shards is not None:
        begun["shards"], now["shards"] = plan.shards, shards
    for name in {**begun, **now}:
        if begun.get(name) != now.get(name):
            raise UserError(
                f"{folder} was begun with {name} {begun.get(name)}, not {now.get(name)}; "
                "go on with the same or choose another folder"
            )
    status = source.stat()
    same_size, same_time = status.st_size == plan.size, status.st_mtime_ns == plan.modified
    if not same_size or not (same_time or _sha256(source) == plan.sha256):
        raise UserError(f"{folder} was begun with another input than {source}; choose another folder")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _chunks(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    chunk, size = [], 0
    for line in lines:
        chunk.append(line)
        size += len(line) + 1
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


@contextmanager
def _arriving(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes its name when it is whole and on the disk. Only for who holds its lock."""
    temporary = path.with_name(f".{path.name.lstrip('.')}.tmp")
    with temporary.open("wb") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)


@contextmanager
def _refusals(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written ({error.strerror or error}); make room or choose another"
        ) from None
