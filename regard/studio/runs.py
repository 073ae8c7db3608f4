"""The training runs in a folder: their names, their progress, and whether they are running.

Only reads, and never follows links. A run is looked up by name in the listing; the name is never joined to a path.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.config import parse_toml
from regard.errors import UserError
from regard.locking import is_held
from regard.studio.metric_lines import Part, checked, lines_backwards, read_on, read_plain

METRICS, LOCK = "metrics.jsonl", "lock"
MOST_ENTRIES = 50_000
"""The most folders that are searched."""
MOST_RUNS = 200
"""The most runs that are listed, newest first."""
ENDS = 2**16
"""Bytes at the start and end of a file in which its first and last line are searched."""


class Runs:
    """The runs in a folder; a missing folder has none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[dict[str, Any]]:
        """All listed runs, newest first."""
        return self.newest()[0]

    def newest(self) -> tuple[list[dict[str, Any]], int]:
        """The listed runs, newest first, and the number of older ones that are not listed."""
        found = sorted(self._folders(), key=lambda run: -_changed(run[1]))
        return [_summary(name, place) for name, place in found[:MOST_RUNS]], len(found[MOST_RUNS:])

    def read(self, name: str, since: int, mark: str, every: int) -> tuple[dict[str, Any], Part] | None:
        """The summary of a run, and what it has logged since; None for an unknown name."""
        first = name.partition("/")[0]
        place = dict(self._folders(first)).get(name)
        if place is None:
            return None
        summary = _summary(name, place)  # before the file is read: a run that ends in between shows next time
        return summary, read_on(place / METRICS, since, mark, every)

    def _folders(self, only: str = "") -> Iterator[tuple[str, Path]]:
        """Runs by name: `NAME`, or `NAME/fold-1` where a folder holds several; with `only`, those of one NAME."""
        left = MOST_ENTRIES
        for name, place in _inside(self.folder):
            if left <= 0:
                return
            left -= 1
            if only and name != only:
                continue
            if _is_run(place):
                yield name, place
                continue
            for inner, deeper in _inside(place):
                left -= 1
                if left <= 0:
                    return
                if _is_run(deeper):
                    yield f"{name}/{inner}", deeper


def _inside(folder: Path) -> Iterator[tuple[str, Path]]:
    """The subfolders that are not links."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and entry.name.isprintable() and not entry.name.startswith("."):
                    yield entry.name, Path(entry.path)
    except OSError:
        return


def _is_run(place: Path) -> bool:
    return _is_plain(place / METRICS) or _is_plain(place / LOCK)


def _is_plain(path: Path) -> bool:
    """Whether it is a regular file: not a link, nor anything that could block when opened."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _changed(place: Path) -> float:
    for path in (place / METRICS, place / LOCK, place):
        try:
            return path.stat().st_mtime
        except OSError:
            continue
    return 0.0


def _summary(name: str, place: Path) -> dict[str, Any]:
    running = _is_plain(place / LOCK) and is_held(place / LOCK)
    finished = not running and (place / "model").is_dir()
    first = checked(read_plain(place / METRICS, ENDS).partition(b"\n")[0])
    last = next(lines_backwards(read_plain(place / METRICS, ENDS, last=True)), None)
    return {
        "name": name,
        **_recipe(place / "recipe.toml"),
        "state": "running" if running else "finished" if finished else "stopped",
        "started": first["time"] if first else None,
        "changed": last["time"] if last else None,
        "step": last["step"] if last else 0,
    }


def _recipe(path: Path) -> dict[str, Any]:
    """Fields of a run's recipe, checked."""
    try:
        status = path.lstat()
    except OSError:
        return _fields(b"")
    return _cached_fields(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(MOST_RUNS)
def _cached_fields(path: Path, changed: int, size: int) -> dict[str, Any]:
    return _fields(read_plain(path, 2**18))


def _fields(recipe: bytes) -> dict[str, Any]:
    try:
        read = parse_toml(recipe.decode())
    except (UnicodeDecodeError, UserError):
        read = {}
    training = read.get("training")
    training = training if isinstance(training, dict) else {}
    steps = training.get("steps")
    return {
        "task": _short(read.get("task")),
        "source": _short(read.get("source_language")),
        "target": _short(read.get("target_language")),
        "metric": _short(training.get("metric")),
        "steps": steps if isinstance(steps, int) and 0 <= steps < 2**53 else None,
    }


def _short(value: Any) -> str:
    return value[:100] if isinstance(value, str) else ""
