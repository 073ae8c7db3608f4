"""The state store: the same laws for the SQLite file and for Redis, and what is special to each."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from serving.redis_server import redis_server

from regard.errors import UserError
from regard.serving.state import StateStore, StateUnavailable, StoredGlossary, digest_of, new_key, open_state
from regard.serving.state.sqlite import APPLICATION_ID, SCHEMA, SqliteState

Opened = Callable[[], StateStore]


@pytest.fixture(params=["file", "redis"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Opens another connection to one store, as another server would."""
    if request.param == "file":
        yield lambda: open_state(str(tmp_path / "state"))
        return
    with redis_server(tmp_path) as redis:
        yield lambda: open_state(redis.url)


def test_a_key_that_one_server_adds_is_known_to_the_others_until_it_is_removed(opened: Opened) -> None:
    one, other = opened(), opened()
    key, digest = new_key(), digest_of("x")
    assert other.key_status(digest_of(key)) == (False, False)
    assert one.add_key("site", digest_of(key)) and one.add_key("anna", digest)
    assert not other.add_key("site", digest), "a name is taken"
    assert other.key_status(digest_of(key)) == other.key_status(digest) == (True, True)
    assert other.key_status("") == other.key_status(digest_of(key + "x")) == (False, True)
    listed = other.stored_keys()
    assert [row.name for row in listed] == ["anna", "site"] and listed[0].added > 1.7e9
    assert other.remove_key("site") and not one.remove_key("site") and not one.remove_key("nobody")
    assert one.key_status(digest_of(key)) == (False, True)
    assert one.add_key("site", digest_of("new")), "the name is free again"
    assert other.key_status(digest_of("new")) == (True, True)
    assert other.key_status(digest_of(key)) == (False, True), "the old key is not"


def test_removing_the_last_key_does_not_open_the_server(opened: Opened) -> None:
    store = opened()
    store.add_key("only", digest_of("k"))
    store.remove_key("only")
    assert store.stored_keys() == [] and opened().key_status(digest_of("k")) == (False, True)


def test_two_servers_share_one_count(opened: Opened) -> None:
    one, other = opened(), opened()
    waits = [store.count("a", 3) for store in (one, other, one, other, one)]
    assert waits[:3] == [0, 0, 0] and all(50 <= wait <= 60 for wait in waits[3:])
    assert other.count("b", 3) == 0


def test_servers_that_count_at_once_let_through_what_the_limit_says(opened: Opened) -> None:
    stores = [opened() for _ in range(4)]

    def count(number: int) -> int:
        while True:
            with suppress(StateUnavailable):  # on a busy machine a second may pass before it is its turn
                return stores[number % 4].count("a", 25)

    with ThreadPoolExecutor(8) as threads:
        waits = list(threads.map(count, range(80)))
    assert waits.count(0) == 25


def test_glossaries_belong_to_their_owner_and_all_servers_have_them(opened: Opened) -> None:
    one, other = opened(), opened()
    first = StoredGlossary("1", "Animals", "fr", "en", 5.0, 2, "chien\tdog\nété\tsummer")
    second = replace(first, id="2", added=4.0)
    assert one.add_glossary("a", first, 2) and one.add_glossary("a", second, 2)
    assert not other.add_glossary("a", replace(first, id="3"), 2), "two are the most"
    assert other.add_glossary("b", first, 2)
    assert other.glossaries("a") == [replace(second, text=""), replace(first, text="")]
    assert other.glossary("a", "1") == first and other.glossary("c", "1") is None
    assert other.remove_glossary("a", "1") and not one.remove_glossary("a", "1")
    assert one.glossary("a", "1") is None and one.glossary("b", "1") == first


def test_a_file_of_an_older_version_gets_the_new_tables(tmp_path: Path) -> None:
    path = str(tmp_path / "state")
    with sqlite3.connect(path) as old:
        old.executescript(SCHEMA[0])
        old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        old.execute("PRAGMA user_version = 1")
    store = open_state(path)
    assert store.add_glossary("a", StoredGlossary("1", "n", "fr", "en", 1.0, 1, "x\ty"), 9)
    assert len(open_state(path).glossaries("a")) == 1


def test_the_store_holds_no_key(tmp_path: Path) -> None:
    key = new_key()
    assert len(key) == 32 and key != new_key()
    store = open_state(str(tmp_path / "state"))
    store.add_key("site", digest_of(key))
    store.close()
    (content,) = [path.read_bytes() for path in tmp_path.iterdir()]
    assert b"site" in content and key.encode() not in content


# The file.


def test_a_minute_begins_with_the_first_request_and_old_ones_are_forgotten(tmp_path: Path) -> None:
    now = 1000.0
    store = SqliteState(str(tmp_path / "state"), clock=lambda: now)

    def rows() -> int:
        return sqlite3.connect(tmp_path / "state").execute("SELECT count(*) FROM requests").fetchone()[0]

    assert [store.count("a", 2) for _ in range(3)] == [0, 0, 60]
    now = 1059.5
    assert [store.count("a", 2), store.count("b", 2), rows()] == [1, 0, 2]
    now = 1060.0
    assert [store.count("a", 2) for _ in range(3)] == [0, 0, 60]
    now = 5000.0
    assert [store.count("c", 2), rows()] == [0, 1]
    now = 10.0
    assert [store.count("c", 1), store.count("c", 1)] == [0, 60], "the clock was set back"


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions")
def test_only_its_owner_reads_the_file(tmp_path: Path) -> None:
    open_state(str(tmp_path / "state")).add_key("a", digest_of("a"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_what_was_written_survives_a_kill(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from regard.serving.state import digest_of, open_state
store = open_state(sys.argv[1])
store.add_key("site", digest_of("k"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    path = str(tmp_path / "state")
    assert subprocess.run([sys.executable, "-c", script, path], timeout=60).returncode == -9
    assert open_state(path).key_status(digest_of("k")) == (True, True)


def test_a_file_that_another_process_holds_is_unavailable_after_a_second_and_works_again(tmp_path: Path) -> None:
    store = open_state(str(tmp_path / "state"))
    other = sqlite3.connect(tmp_path / "state", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StateUnavailable, match="locked"):
        store.count("a", 5)
    assert store.key_status("") == (False, False), "readers do not wait for writers"
    other.execute("ROLLBACK")
    assert store.count("a", 5) == 0


def test_other_files_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    text, foreign, newer = tmp_path / "text", tmp_path / "foreign", tmp_path / "newer"
    text.write_text("no database\n" * 100)
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE people (name)")
    open_state(str(newer)).close()
    with sqlite3.connect(newer) as connection:
        connection.execute(f"PRAGMA user_version = {len(SCHEMA) + 1}")
    for path, why in ((text, "not a database"), (foreign, "another program"), (newer, "newer version"), (tmp_path, "")):
        with pytest.raises(UserError, match=rf"{path}: .*{why}"):
            open_state(str(path))
    assert text.read_text() == "no database\n" * 100
    assert sqlite3.connect(foreign).execute("SELECT name FROM sqlite_master").fetchall() == [("people",)]


# Redis.


def test_redis_forgets_counts_by_itself_and_messages_hold_no_password(tmp_path: Path) -> None:
    with redis_server(tmp_path, password="s3cret") as redis:
        store = open_state(redis.url)
        store.count("a", 1)
        lives = [int(line) for line in redis.ask("TTL", "regard:requests:a").splitlines()]
        assert 55 <= lives[0] <= 60
        for wrong in (redis.url.replace("s3cret", "s4cret"), redis.url.replace(":s3cret@", "")):
            with pytest.raises(UserError) as refused:
                open_state(wrong)
            assert "cret" not in str(refused.value) and "Authentication" in str(refused.value)
        redis.stop()
        with pytest.raises(StateUnavailable) as failed:
            store.key_status("")
        assert "cret" not in str(failed.value)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("redis://127.0.0.1:1/0", "Redis cannot be used"),
        ("redis://user:pa55@127.0.0.1:x/", "not a Redis URL"),
        ("postgres://user:pa55@host/db", "postgres:// is not supported"),
    ],
)
def test_an_address_that_cannot_be_used_is_a_users_mistake_without_the_password(where: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        open_state(where)
    assert "pa55" not in str(refused.value)
