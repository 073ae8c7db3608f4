"""The state store: what several server processes share. API keys and rate limits, in a SQLite file or in Redis.

A file (sqlite.py) serves the processes of one machine, Redis (redis.py) those of several. Methods block; the server
calls them in threads (http/shared_state.py). They raise `StateUnavailable` within a few seconds if the store fails.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from regard.errors import UserError

MINUTE = 60
STORE_SECONDS = 1.0
"""Time for one operation of a store: waiting for a lock, a connection or an answer."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class StateUnavailable(Exception):
    """The store did not answer. The message is for the server's log and contains no address or password."""


class KeyStatus(NamedTuple):
    known: bool
    """Whether it is a key of this server."""
    required: bool
    """Whether requests need a key at all."""


@dataclass(frozen=True)
class StoredKey:
    name: str
    """Whose it is, for `regard keys`."""
    added: float
    """Unix time."""


@dataclass(frozen=True)
class StoredGlossary:
    """A glossary of the owner of a key (DeepL's API)."""

    id: str
    name: str
    source: str
    """Internal codes of the languages."""
    target: str
    added: float
    terms: int
    text: str
    """Its lines, as in a file."""


class StateStore(ABC):
    """Keys are stored as digests: who reads the store cannot use them."""

    @abstractmethod
    def add_key(self, name: str, digest: str) -> bool:
        """False, and nothing is changed, if a key has that name."""

    @abstractmethod
    def remove_key(self, name: str) -> bool:
        """False if no key has that name. A key stays required even if it was the last one: removing a key must not
        open the server to everyone."""

    @abstractmethod
    def stored_keys(self) -> list[StoredKey]:
        """In order of their names."""

    @abstractmethod
    def key_status(self, digest: str) -> KeyStatus:
        pass

    @abstractmethod
    def count(self, client: str, limit: int) -> int:
        """Counts a request in the client's minute, which begins with its first request. 0 if it is within the limit,
        else the seconds until the minute is over; such a request does not extend it."""

    @abstractmethod
    def add_glossary(self, owner: str, glossary: StoredGlossary, most: int) -> bool:
        """False, and nothing is changed, if the owner has `most` of them already."""

    @abstractmethod
    def glossaries(self, owner: str) -> list[StoredGlossary]:
        """All of an owner, in order of their time, without their text."""

    @abstractmethod
    def glossary(self, owner: str, id: str) -> StoredGlossary | None:
        pass

    @abstractmethod
    def remove_glossary(self, owner: str, id: str) -> bool:
        """False if the owner has none with that id."""

    @abstractmethod
    def close(self) -> None:
        pass


def open_state(where: str) -> StateStore:
    """The store at `redis://...`, `rediss://...` or in the SQLite file of this path, which is created if necessary.
    Raises a UserError if it cannot be used."""
    if where.startswith(("redis://", "rediss://")):
        from regard.serving.state.redis import RedisState

        return RedisState(where)
    if "://" in where:
        scheme = where.partition("://")[0]
        raise UserError(f"--state: {scheme}:// is not supported; give the path of a file, or redis://HOST:6379/0")
    from regard.serving.state.sqlite import SqliteState

    return SqliteState(where)


def keys_required(where: str) -> bool:
    """Whether the store ever had a key."""
    store = open_state(where)
    try:
        return store.key_status("").required
    except StateUnavailable as error:
        raise UserError(f"--state: {error}") from None
    finally:
        store.close()


def digest_of(key: str) -> str:
    """SHA-256. Keys are long and random (`new_key`), so a slow hash would only make requests slow."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def new_key() -> str:
    return secrets.token_urlsafe(24)


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UserError(f"'{name}' is not a name for a key; use up to 64 letters, digits and . _ @ -, such as website")
    return name
