"""The state store in a SQLite file, for the processes of one machine."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple

from regard.errors import UserError
from regard.serving.state import (
    MINUTE,
    STORE_SECONDS,
    KeyStatus,
    StateStore,
    StateUnavailable,
    StoredGlossary,
    StoredKey,
)

APPLICATION_ID = 0x72676473
"""Marks the file as ours, so that no other program's database is written to."""
SCHEMA = (
    """
    CREATE TABLE keys (name TEXT PRIMARY KEY, digest TEXT UNIQUE, added REAL NOT NULL) WITHOUT ROWID;
    CREATE TABLE requests (client TEXT PRIMARY KEY, began REAL NOT NULL, number INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX requests_began ON requests (began);
    """,
    """
    CREATE TABLE glossaries (owner TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, source TEXT NOT NULL,
        target TEXT NOT NULL, added REAL NOT NULL, terms INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (owner, id))
    """,
)
"""One script per version of the file (`user_version`); a new table is a new script. A removed key keeps its row without
a digest."""


class SqliteState(StateStore):
    """One connection, used by one thread at a time. In WAL mode readers do not wait for writers."""

    def __init__(self, path: str, clock: Callable[[], float] = time.time):
        self._clock, self._lock = clock, threading.Lock()
        try:
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            self._connection = sqlite3.connect(
                path, timeout=STORE_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._prepare(path)
        except OSError as error:
            raise UserError(f"--state {path}: cannot be opened ({error.strerror})") from None
        except sqlite3.DatabaseError as error:
            raise UserError(f"--state {path}: cannot be used ({error})") from None

    def _prepare(self, path: str) -> None:
        run = self._connection.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")  # a crash of the machine may lose the last changes, never the file
        with self._writing():
            mark, version = (run(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
            if mark != APPLICATION_ID and run("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise UserError(f"--state {path}: is a database of another program; choose another file")
            if version > len(SCHEMA):
                raise UserError(f"--state {path}: was written by a newer version of Regard; use that one")
            for script in SCHEMA[version:]:
                for statement in script.split(";"):
                    run(statement)
            run(f"PRAGMA application_id = {APPLICATION_ID}")
            run(f"PRAGMA user_version = {len(SCHEMA)}")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction that no other process writes beside."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        if not self._lock.acquire(timeout=STORE_SECONDS):
            raise StateUnavailable("the state file is busy")
        try:
            yield self._connection
        except sqlite3.Error as error:
            raise StateUnavailable(f"the state file cannot be used ({error})") from None
        finally:
            self._lock.release()

    def add_key(self, name: str, digest: str) -> bool:
        with self._using() as connection, self._writing():
            done = connection.execute(
                "INSERT INTO keys VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE "
                "SET digest = excluded.digest, added = excluded.added WHERE keys.digest IS NULL",
                (name, digest, self._clock()),
            )
            return done.rowcount == 1

    def remove_key(self, name: str) -> bool:
        with self._using() as connection, self._writing():
            done = connection.execute("UPDATE keys SET digest = NULL WHERE name = ? AND digest IS NOT NULL", (name,))
            return done.rowcount == 1

    def stored_keys(self) -> list[StoredKey]:
        with self._using() as connection:
            rows = connection.execute("SELECT name, added FROM keys WHERE digest IS NOT NULL ORDER BY name").fetchall()
        return [StoredKey(*row) for row in rows]

    def key_status(self, digest: str) -> KeyStatus:
        with self._using() as connection:
            known, required = connection.execute(
                "SELECT EXISTS (SELECT 1 FROM keys WHERE digest = ?), EXISTS (SELECT 1 FROM keys)", (digest,)
            ).fetchone()
        return KeyStatus(bool(known), bool(required))

    def count(self, client: str, limit: int) -> int:
        now = self._clock()
        with self._using() as connection, self._writing():
            # Rows of a future time: the clock was set back.
            connection.execute("DELETE FROM requests WHERE began <= ? OR began > ?", (now - MINUTE, now))
            row = connection.execute("SELECT began, number FROM requests WHERE client = ?", (client,)).fetchone()
            began, number = row or (now, 0)
            if number >= limit:
                return max(1, math.ceil(began + MINUTE - now))
            connection.execute("INSERT OR REPLACE INTO requests VALUES (?, ?, ?)", (client, began, number + 1))
        return 0

    def add_glossary(self, owner: str, glossary: StoredGlossary, most: int) -> bool:
        with self._using() as connection, self._writing():
            (there,) = connection.execute("SELECT count(*) FROM glossaries WHERE owner = ?", (owner,)).fetchone()
            if there < most:
                row = (owner, *astuple(glossary))
                connection.execute("INSERT INTO glossaries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            return bool(there < most)

    def glossaries(self, owner: str) -> list[StoredGlossary]:
        with self._using() as connection:
            rows = connection.execute(
                "SELECT id, name, source, target, added, terms, '' FROM glossaries WHERE owner = ? ORDER BY added, id",
                (owner,),
            ).fetchall()
        return [StoredGlossary(*row) for row in rows]

    def glossary(self, owner: str, id: str) -> StoredGlossary | None:
        with self._using() as connection:
            row = connection.execute(
                "SELECT id, name, source, target, added, terms, text FROM glossaries WHERE owner = ? AND id = ?",
                (owner, id),
            ).fetchone()
        return StoredGlossary(*row) if row else None

    def remove_glossary(self, owner: str, id: str) -> bool:
        with self._using() as connection, self._writing():
            done = connection.execute("DELETE FROM glossaries WHERE owner = ? AND id = ?", (owner, id))
            return done.rowcount == 1

    def close(self) -> None:
        self._connection.close()
