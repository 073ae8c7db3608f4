"""Corrections that users of a server suggested (`/suggest`), in a SQLite file: the pairs for `regard train --memory`.

The file may be open in several servers at once. A suggestion for a text that its owner corrected before replaces the
older one.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from regard.errors import UserError

APPLICATION_ID = 0x72677367
"""Marks the file as ours, so that no other program's database is written to."""
VERSION = 1
SCHEMA = """
CREATE TABLE suggestions (owner TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL, text TEXT NOT NULL,
    suggestion TEXT NOT NULL, added REAL NOT NULL, PRIMARY KEY (owner, source, target, text)) WITHOUT ROWID
"""
MAX_CHARACTERS = 5000
"""Of a text and of its suggestion: a correction is a sentence or a paragraph, not a book."""
MAX_PER_OWNER, MAX_IN_ALL = 10_000, 100_000
WAIT_SECONDS = 2.0
"""Time to wait for another process that is writing."""


class SuggestionsFull(Exception):
    """The owner, or the file, has as many suggestions as it may."""


@dataclass(frozen=True)
class Suggestion:
    source: str
    """Internal codes of the languages."""
    target: str
    text: str
    suggestion: str
    added: float
    """Unix time."""


class Suggestions:
    """The file of this path; with `create`, an empty one if there is none. Methods block, and are thread-safe."""

    def __init__(self, path: str | Path, create: bool = True, per_owner: int = MAX_PER_OWNER, in_all: int = MAX_IN_ALL):
        self.path, self.per_owner, self.in_all = path, per_owner, in_all
        self._lock = threading.Lock()
        try:
            if create:  # readable by its user alone: it holds what people typed
                with suppress(FileExistsError):
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            elif not Path(path).is_file():
                raise UserError(f"{path} does not exist; name the file of: regard serve --suggestions FILE")
            self._connection = sqlite3.connect(
                path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            with self._writing():
                self._prepare()
        except OSError as error:
            raise UserError(f"{path}: cannot be opened ({error.strerror})") from None
        except sqlite3.DatabaseError as error:
            raise UserError(f"{path}: cannot be used as a file of suggestions ({error})") from None

    def _prepare(self) -> None:
        run = self._connection.execute
        mark, version = (run(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        if mark == APPLICATION_ID and version == VERSION:
            return
        if mark == APPLICATION_ID:
            raise UserError(f"{self.path}: was written by a newer version of Regard; use that one")
        if run("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise UserError(f"{self.path}: is a database of another program; choose another file")
        run(SCHEMA)
        run(f"PRAGMA application_id = {APPLICATION_ID}")
        run(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction that no other process writes beside."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def add(self, owner: str, source: str, target: str, text: str, suggestion: str) -> None:
        """Raises SuggestionsFull beyond the limits; a correction of an older suggestion is always taken."""
        run = self._connection.execute
        with self._writing():
            (known,) = run(
                "SELECT count(*) FROM suggestions WHERE owner = ? AND source = ? AND target = ? AND text = ?",
                (owner, source, target, text),
            ).fetchone()
            if not known:
                (own,) = run("SELECT count(*) FROM suggestions WHERE owner = ?", (owner,)).fetchone()
                (all_,) = run("SELECT count(*) FROM suggestions").fetchone()
                if own >= self.per_owner or all_ >= self.in_all:
                    raise SuggestionsFull
            run(
                "INSERT OR REPLACE INTO suggestions VALUES (?, ?, ?, ?, ?, ?)",
                (owner, source, target, text, suggestion, time.time()),
            )

    def all(self) -> list[Suggestion]:
        """In order of their time."""
        with self._lock:
            try:
                rows = self._connection.execute(
                    "SELECT source, target, text, suggestion, added FROM suggestions ORDER BY added, text"
                ).fetchall()
            except sqlite3.DatabaseError as error:
                raise UserError(f"{self.path}: cannot be read ({error})") from None
        return [Suggestion(*row) for row in rows]

    def close(self) -> None:
        self._connection.close()


def is_database(path: str | Path) -> bool:
    """Whether a file begins as SQLite files do."""
    try:
        with Path(path).open("rb") as file:
            return file.read(16) == b"SQLite format 3\x00"
    except OSError:
        return False
