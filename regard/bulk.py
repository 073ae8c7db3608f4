"""Processes a file in shards, by one process or several of one machine, each line once even if processes are killed.

    OUT/001-of-064.txt      a finished shard; `cat OUT/*` is the whole output, in order
    OUT/.plan.json          input, settings and number of shards: a folder belongs to one job
    OUT/.001-of-064.lock    held by the process that works on this shard, and released when it ends for any reason

A shard is published under its name when it is complete and the input has not changed; other processes then skip it.
Several machines share their work through Ray (regard.ray), which makes the same folder. This module does not know
models: any function from lines to as many texts works.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.atomic_files import AtomicFile, remove_leftovers, sha256
from regard.data.corpus.reading import check_file, raw_lines
from regard.errors import UserError
from regard.locking import hold, hold_in_turn

ProcessLines = Callable[[list[bytes], int], list[str]]
"""Takes lines and the number of the first one; returns as many texts."""
Progress = Callable[[int], None]
"""Called with the number of finished lines."""

CHUNK_BYTES = 1 << 20
"""Bytes of lines per call: some ten thousand lines, enough to batch them by length."""
SHARD_LINES = 10_000
"""Lines per shard, unless the number of shards is given."""
MAX_SHARDS = 10_000
Warn = Callable[[str], None]
POLL_SECONDS = 0.5
"""Interval at which shards held by other processes are checked."""
MAX_TOUCHES = 5
"""How often in a row the input may be touched (with unchanged content) before a shard is finished."""


@dataclass
class Answers:
    """A loaded model that answers lines as a command prints them."""

    settings: dict[str, Any]
    """What the answers depend on: the model's hash, the search, the form of the output."""
    answer: Callable[[list[str], int, Warn, Progress], list[str]]
    """Takes texts, the number of the first one, what receives warnings, which begin with `line N`, and what counts the
    lines finished since the last call."""


def shard_count(lines: int, wanted: int | None) -> int:
    """The number of shards for so many lines; a `wanted` one is checked."""
    if wanted is not None and not 1 <= wanted <= MAX_SHARDS:
        raise UserError(f"shards must be between 1 and {MAX_SHARDS:,}, not {wanted:,}")
    return wanted or min(max(1, -(-lines // SHARD_LINES)), MAX_SHARDS)


def lines_before(shard: int, shards: int, lines: int) -> int:
    return lines * shard // shards


def shard_name(shard: int, shards: int, suffix: str) -> str:
    digits = max(3, len(str(shards)))
    return f"{shard + 1:0{digits}}-of-{shards:0{digits}}.{suffix}"


@dataclass(frozen=True)
class Plan:
    """The job that a folder belongs to."""

    size: int
    modified: int
    sha256: str
    """Size, modification time (nanoseconds) and hash of the input."""
    lines: int
    shards: int
    settings: dict[str, Any]
    """Everything else that the output depends on."""

    def lines_before(self, shard: int) -> int:
        return lines_before(shard, self.shards, self.lines)


class Shards:
    """The output folder of a file; many processes may work on it at once."""

    def __init__(
        self,
        source: Path,
        folder: Path,
        settings: Mapping[str, Any],
        shards: int | None = None,
        suffix: str = "txt",
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Writes the plan or reads the existing one; refuses a folder that belongs to another job."""
        self.source, self.folder, self.suffix = source, folder, suffix
        check_file(source)
        shard_count(0, shards)
        self._stamp = _stamp(source)
        self._touches, self._published = 0, list[Path]()
        with write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with hold_in_turn(folder / ".plan.lock"):  # one process counts the lines, the others wait
                # Checked first: a process that published shards wrote the plan before them.
                others = any(not path.name.startswith(".") for path in folder.iterdir())
                if _known_plan(folder) is None:
                    if others:
                        raise UserError(f"{folder} already holds other files; choose a new folder")
                    self._make_plan(settings, shards, note)
                known = _known_plan(folder)  # another process may have written it first
        if known is None:
            raise UserError(f"{folder / '.plan.json'} was removed; run the same command again")
        self.plan = known
        _check_same_job(known, source, folder, settings, shards)
        self._input_was_touched()

    def file(self, shard: int) -> Path:
        return self.folder / shard_name(shard, self.plan.shards, self.suffix)

    def done(self) -> int:
        """Lines in finished shards, of all processes."""
        return self.plan.lines - sum(map(self._size, self._unfinished()))

    def run(self, process: ProcessLines, progress: Progress = lambda lines: None) -> None:
        """Works on shards that no other process holds until all are finished; takes over those of dead processes."""
        remove_leftovers(self.folder)
        while unfinished := self._unfinished():
            if not self._run_pass(unfinished, process, progress):
                progress(self.done())
                time.sleep(POLL_SECONDS)
        self._verify_input()
        self._clean_up()

    def _lock_file(self, shard: int) -> Path:
        return self.folder / f".{self.file(shard).stem}.lock"

    def _clean_up(self) -> None:
        """Removes what killed processes left behind: partial shards, and locks of finished ones."""
        remove_leftovers(self.folder)
        for lock_file in filter(Path.exists, map(self._lock_file, range(self.plan.shards))):
            with write_errors(self.folder):
                lock = hold(lock_file)
            if lock is not None:
                with lock:
                    lock_file.unlink(missing_ok=True)

    def _unfinished(self) -> list[int]:
        existing = {path.name for path in self.folder.iterdir()}
        return [shard for shard in range(self.plan.shards) if self.file(shard).name not in existing]

    def _size(self, shard: int) -> int:
        return self.plan.lines_before(shard + 1) - self.plan.lines_before(shard)

    def _run_pass(self, shards: list[int], process: ProcessLines, progress: Progress) -> bool:
        """Reads the input once and computes the free shards; False if other processes hold all of them."""
        lines, at, worked = raw_lines(self.source), 0, False
        for shard in shards:
            file, lock_file = self.file(shard), self._lock_file(shard)
            with write_errors(self.folder):
                lock = hold(lock_file)
            if lock is None:
                continue
            with lock:
                if not file.exists():  # another process may have finished it just before it released the lock
                    deque(islice(lines, self.plan.lines_before(shard) - at), maxlen=0)
                    with write_errors(self.folder), AtomicFile(file) as out:
                        self._run_shard(shard, islice(lines, self._size(shard)), process, out, progress)
                        out.finish()
                        if self._input_was_touched():
                            return True  # the content is the same now, but may have differed while it was read
                        out.replace()
                        self._published.append(file)
                    at, worked, self._touches = self.plan.lines_before(shard + 1), True, 0
                    progress(self.done())
                lock_file.unlink(missing_ok=True)  # only now: a process that waits for it then finds the shard
        return worked

    def _run_shard(
        self, shard: int, lines: Iterator[bytes], process: ProcessLines, out: AtomicFile, progress: Progress
    ) -> None:
        others, before, count = self.done(), self.plan.lines_before(shard), 0
        for chunk in chunks(lines):
            outputs = process(chunk, before + count + 1)
            if len(outputs) != len(chunk):
                raise RuntimeError(f"{len(chunk)} lines went in but {len(outputs)} came out")
            out.write("".join(f"{output}\n" for output in outputs).encode("utf-8", "replace"))
            count += len(chunk)
            progress(others + count)
        if count != self._size(shard):
            self._input_was_touched()
            raise UserError(f"{self.source} has fewer lines than when {self.folder} was started; choose another folder")

    def _input_was_touched(self) -> bool:
        """Whether the input was touched since the last call. Raises a UserError if its content changed."""
        stamp = _stamp(self.source)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self._touches += 1
        if _sha256(self.source) != self.plan.sha256:
            raise UserError(
                f"{self.source} changed while it was read; the shards in {self.folder} belong to the old input: "
                "restore it and run the same command again, or choose another folder"
            )
        if self._touches > MAX_TOUCHES:
            raise UserError(f"{self.source} is modified repeatedly while it is read; leave it alone and try again")
        return True

    def _verify_input(self) -> None:
        """Detects a change that left size and times as they were: then it is unknown which shards are valid."""
        if self._input_was_touched() or not self._published or _sha256(self.source) == self.plan.sha256:
            return
        for file in self._published:
            file.unlink(missing_ok=True)
        raise UserError(
            f"{self.source} changed while it was read; its shards were removed from "
            f"{self.folder}; choose another folder"
        )

    def _make_plan(self, settings: Mapping[str, Any], shards: int | None, note: Callable[[str], None]) -> None:
        note(f"counting the lines of {self.source}")
        size, modified, _ = self._stamp
        lines = sum(1 for _ in raw_lines(self.source))
        plan = Plan(size, modified, _sha256(self.source), lines, shard_count(lines, shards), dict(settings))
        if _stamp(self.source) != self._stamp:
            raise UserError(f"{self.source} changed while its lines were counted; run the same command again")
        with AtomicFile(self.folder / ".plan.json") as out:
            out.write((json.dumps(asdict(plan), indent=1) + "\n").encode())
            out.finish()
            out.replace()


def _known_plan(folder: Path) -> Plan | None:
    try:
        return Plan(**json.loads((folder / ".plan.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, RecursionError):
        raise UserError(f"{folder / '.plan.json'} is not a valid plan; choose another folder") from None


def _check_same_job(plan: Plan, source: Path, folder: Path, settings: Mapping[str, Any], shards: int | None) -> None:
    """Raises a UserError if input or settings differ. A copy of the input with another date is the same input."""
    check_same_settings(folder, plan.settings, settings, plan.shards, shards)
    size, modified, _ = _stamp(source)
    if size != plan.size or not (modified == plan.modified or _sha256(source) == plan.sha256):
        raise UserError(f"{folder} was started with another input than {source}; choose another folder")


def check_same_settings(
    folder: Path, before: Mapping[str, Any], settings: Mapping[str, Any], shards_before: int, shards: int | None
) -> None:
    started, now = dict(before), dict(settings)
    if shards is not None:
        started["shards"], now["shards"] = shards_before, shards
    for name in {**started, **now}:
        if started.get(name) != now.get(name):
            raise UserError(
                f"{folder} was started with {name} {started.get(name)}, not {now.get(name)}; "
                "use the same or choose another folder"
            )


def _stamp(source: Path) -> tuple[int, int, int]:
    """Size and times of a file, which change when it is written."""
    try:
        status = source.stat()
    except OSError as error:
        raise _unreadable(source, error) from None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _sha256(source: Path) -> str:
    try:
        return sha256(source)
    except OSError as error:
        raise _unreadable(source, error) from None


def _unreadable(source: Path, error: OSError) -> UserError:
    return UserError(f"{source} can no longer be read ({error.strerror or error}); restore it and try again")


def chunks(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    chunk, size = [], 0
    for line in lines:
        chunk.append(line)
        size += len(line) + 1
        if size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


@contextmanager
def write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written ({error.strerror or error}); make room or choose another"
        ) from None
