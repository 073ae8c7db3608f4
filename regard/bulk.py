"""A whole corpus answered in shards: by one process or by many, each line exactly once whatever is killed.

    OUT/001-of-064.txt      a finished shard; `cat OUT/*` is the whole answer, in order
    OUT/.plan.json          what is answered, by what and how: a folder holds one piece of work
    OUT/.001-of-064.lock    held by the process at work on that shard, and free again when it ends, however it ends

A shard takes its name when it is whole and the input has not changed since it was read; whoever finds it there leaves
it alone. Locks only save work: where a file system does not share them, two processes may answer the same shard, and
either result is right. Knows nothing of models: anything that turns lines into as many texts will do.
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

from regard.data.corpus.reading import check_file, raw_lines
from regard.errors import UserError
from regard.locking import hold, hold_in_turn
from regard.whole_files import WholeFile, remove_leftovers, sha256

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
TOUCHES = 5
"""How often in a row the input may be touched (without other content) before a shard of it is done."""


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
        self._stamp = _stamp(source)
        self._touches, self._made = 0, list[Path]()
        with _refusals(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with hold_in_turn(folder / ".plan.lock"):  # one process counts the lines, the others wait for it
                # Looked for first: whoever has made shards had made the plan before.
                others = any(not path.name.startswith(".") for path in folder.iterdir())
                if _known_plan(folder) is None:
                    if others:
                        raise UserError(f"{folder} already holds other files; choose a new folder")
                    self._make_plan(settings, shards, note)
                known = _known_plan(folder)  # which is another process's if that was faster
        if known is None:
            raise UserError(f"{folder / '.plan.json'} was removed; run the same command again")
        self.plan = known
        _refuse_another(known, source, folder, settings, shards)
        self._input_was_touched()

    def file(self, shard: int) -> Path:
        digits = max(3, len(str(self.plan.shards)))
        return self.folder / f"{shard + 1:0{digits}}-of-{self.plan.shards:0{digits}}.{self.ending}"

    def done(self) -> int:
        """Lines of all shards that are finished, whoever did it."""
        return self.plan.lines - sum(map(self._size, self._unfinished()))

    def answer(self, answer: Answer, progress: Progress = lambda lines: None) -> None:
        """Works on shards that nobody else has begun, until all are there; takes over from processes that die."""
        remove_leftovers(self.folder)
        while unfinished := self._unfinished():
            if not self._go_through(unfinished, answer, progress):
                progress(self.done())
                time.sleep(PATIENCE)
        self._check_all_of_the_input()
        self._tidy()

    def _claim(self, shard: int) -> Path:
        return self.folder / f".{self.file(shard).stem}.lock"

    def _tidy(self) -> None:
        """Takes away what processes that were killed left behind: half-written shards, claims of finished ones."""
        remove_leftovers(self.folder)
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
                    with _refusals(self.folder), WholeFile(file) as out:
                        self._answer_shard(shard, islice(lines, self._size(shard)), answer, out, progress)
                        out.finish()
                        if self._input_was_touched():
                            return True  # with the same content now; what was read before may have had another
                        if not file.exists():  # without shared locks another process may have been faster
                            out.replace()
                            self._made.append(file)
                    at, worked, self._touches = self.plan.lines_before(shard + 1), True, 0
                    progress(self.done())
                claim.unlink(missing_ok=True)  # not earlier: whoever opened it before finds the shard there
        return worked

    def _answer_shard(
        self, shard: int, lines: Iterator[bytes], answer: Answer, out: WholeFile, progress: Progress
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
            self._input_was_touched()
            raise UserError(f"{self.source} has fewer lines than when {self.folder} was begun; choose another folder")

    def _input_was_touched(self) -> bool:
        """Whether the input was written or touched since the last call. One with other content is refused."""
        stamp = _stamp(self.source)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self._touches += 1
        if _sha256(self.source) != self.plan.sha256:
            raise UserError(
                f"{self.source} was changed while it was read; shards in {self.folder} are of the input as it was: "
                "put that back and run the same command again, or choose another folder"
            )
        if self._touches > TOUCHES:
            raise UserError(f"{self.source} is touched again and again while it is read; leave it alone and try again")
        return True

    def _check_all_of_the_input(self) -> None:
        """A change that left no trace in size and times: nobody knows which shards are of the input as it was."""
        if self._input_was_touched() or not self._made or _sha256(self.source) == self.plan.sha256:
            return
        for file in self._made:
            file.unlink(missing_ok=True)
        raise UserError(
            f"{self.source} was changed while it was read; the shards that were made of it are removed from "
            f"{self.folder}; choose another folder"
        )

    def _make_plan(self, settings: Mapping[str, Any], shards: int | None, note: Callable[[str], None]) -> None:
        note(f"counting the lines of {self.source}")
        size, modified, _ = self._stamp
        lines = sum(1 for _ in raw_lines(self.source))
        usual = min(max(1, -(-lines // SHARD)), MOST_SHARDS)
        plan = Plan(size, modified, _sha256(self.source), lines, shards or usual, dict(settings))
        if _stamp(self.source) != self._stamp:
            raise UserError(f"{self.source} was changed while its lines were counted; run the same command again")
        with WholeFile(self.folder / ".plan.json") as out:
            out.write((json.dumps(asdict(plan), indent=1) + "\n").encode())
            out.finish()
            out.publish_first()


def _known_plan(folder: Path) -> Plan | None:
    try:
        return Plan(**json.loads((folder / ".plan.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, RecursionError):
        raise UserError(f"{folder / '.plan.json'} cannot be understood; choose another folder") from None


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
    size, modified, _ = _stamp(source)
    if size != plan.size or not (modified == plan.modified or _sha256(source) == plan.sha256):
        raise UserError(f"{folder} was begun with another input than {source}; choose another folder")


def _stamp(source: Path) -> tuple[int, int, int]:
    """By which a file that is written to can be told without reading it: size and times."""
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
    return UserError(f"{source} cannot be read any more ({error.strerror or error}); put it back and try again")


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
def _refusals(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written ({error.strerror or error}); make room or choose another"
        ) from None
