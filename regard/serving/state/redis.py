"""The state store in Redis, for servers on several machines (`regard[redis]`)."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

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

DIGESTS, NAMES, COUNT = "regard:keys:digests", "regard:keys:names", "regard:requests:"
"""Hashes: digest -> name, and name -> digest and time of adding (a removed key keeps its name here); and the prefix of
the counters, which expire by themselves."""
ADD = """
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known and cjson.decode(known).digest ~= '' then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
return 1
"""
GLOSSARIES = "regard:glossaries:"
"""Prefix of the hashes of each owner: id -> glossary."""
ADD_GLOSSARY = """
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
"""
REMOVE = """
local known = redis.call('HGET', KEYS[1], ARGV[1])
if not known then return 0 end
local key = cjson.decode(known)
if key.digest == '' then return 0 end
redis.call('HDEL', KEYS[2], key.digest)
key.digest = ''
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(key))
return 1
"""


class RedisState(StateStore):
    def __init__(self, url: str):
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError:
            raise UserError("--state redis://... needs the package redis; type: pip install 'regard[redis]'") from None
        self._errors = (redis.RedisError, OSError)
        try:
            self._redis: Any = redis.Redis.from_url(
                url,
                decode_responses=True,
                socket_timeout=STORE_SECONDS,
                socket_connect_timeout=STORE_SECONDS,
                retry=Retry(NoBackoff(), 1),  # once, for a connection that Redis closed while it was idle
            )
            self._redis.ping()
        except ValueError:
            raise UserError("--state: not a Redis URL; write it like redis://HOST:6379/0") from None
        except self._errors as error:
            raise UserError(f"--state: Redis cannot be used ({_reason(error)})") from None

    @contextmanager
    def _using(self) -> Iterator[Any]:
        try:
            yield self._redis
        except self._errors as error:
            raise StateUnavailable(f"Redis cannot be used ({_reason(error)})") from None

    def add_key(self, name: str, digest: str) -> bool:
        key = json.dumps({"digest": digest, "added": time.time()})
        with self._using() as redis:
            return bool(redis.eval(ADD, 2, NAMES, DIGESTS, name, digest, key))

    def remove_key(self, name: str) -> bool:
        with self._using() as redis:
            return bool(redis.eval(REMOVE, 2, NAMES, DIGESTS, name))

    def stored_keys(self) -> list[StoredKey]:
        with self._using() as redis:
            rows = {name: json.loads(text) for name, text in redis.hgetall(NAMES).items()}
        return [StoredKey(name, row["added"]) for name, row in sorted(rows.items()) if row["digest"]]

    def key_status(self, digest: str) -> KeyStatus:
        with self._using() as redis:
            known, required = redis.pipeline(transaction=False).hexists(DIGESTS, digest).exists(NAMES).execute()
        return KeyStatus(bool(known), bool(required))

    def count(self, client: str, limit: int) -> int:
        name = COUNT + client
        with self._using() as redis:
            _, number, left = redis.pipeline().set(name, 0, ex=MINUTE, nx=True).incr(name).pttl(name).execute()
        return max(1, math.ceil(left / 1000)) if number > limit else 0

    def add_glossary(self, owner: str, glossary: StoredGlossary, most: int) -> bool:
        with self._using() as redis:
            return bool(
                redis.eval(ADD_GLOSSARY, 1, GLOSSARIES + owner, glossary.id, json.dumps(asdict(glossary)), most)
            )

    def glossaries(self, owner: str) -> list[StoredGlossary]:
        with self._using() as redis:
            found = [StoredGlossary(**{**json.loads(text), "text": ""}) for text in redis.hvals(GLOSSARIES + owner)]
        return sorted(found, key=lambda one: (one.added, one.id))

    def glossary(self, owner: str, id: str) -> StoredGlossary | None:
        with self._using() as redis:
            text = redis.hget(GLOSSARIES + owner, id)
        return StoredGlossary(**json.loads(text)) if text else None

    def remove_glossary(self, owner: str, id: str) -> bool:
        with self._using() as redis:
            return bool(redis.hdel(GLOSSARIES + owner, id))

    def close(self) -> None:
        self._redis.close()


def _reason(error: Exception) -> str:
    """Without the message, which may name the address or the user."""
    return type(error).__name__
