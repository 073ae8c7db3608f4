"""The file of suggestions: what is added is there, newer ones replace older ones, limits hold, other files are refused."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.suggestions import Suggestions, SuggestionsFull, is_database


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "suggestions.db"


def test_a_newer_suggestion_of_the_same_owner_replaces_the_older_one(file: Path) -> None:
    store = Suggestions(file)
    store.add("a", "fr", "en", "Oui.", "Yes.")
    store.add("a", "fr", "en", "Oui.", "Yeah.")
    store.add("b", "fr", "en", "Oui.", "Yep.")
    store.add("a", "fr", "de", "Oui.", "Ja.")
    found = [(one.source, one.target, one.text, one.suggestion) for one in Suggestions(file, create=False).all()]
    assert sorted(found) == [("fr", "de", "Oui.", "Ja."), ("fr", "en", "Oui.", "Yeah."), ("fr", "en", "Oui.", "Yep.")]
    assert os.stat(file).st_mode & 0o077 == 0 and is_database(file)


def test_limits_are_per_owner_and_in_all_but_do_not_stop_corrections(file: Path) -> None:
    store = Suggestions(file, per_owner=2, in_all=3)
    for owner, text in (("a", "1"), ("a", "2"), ("b", "1")):
        store.add(owner, "fr", "en", text, "x")
    for owner, text in (("a", "3"), ("b", "2"), ("c", "1")):
        with pytest.raises(SuggestionsFull):
            store.add(owner, "fr", "en", text, "x")
    store.add("a", "fr", "en", "1", "better")
    assert len(store.all()) == 3 and "better" in {one.suggestion for one in store.all()}


def test_many_threads_and_two_openings_lose_nothing(file: Path) -> None:
    stores = [Suggestions(file), Suggestions(file)]

    def work(number: int) -> None:
        for text in range(10):
            stores[number % 2].add(str(number), "fr", "en", str(text), "x")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores[0].all()) == 40


def test_other_files_are_refused_and_stay_as_they_are(tmp_path: Path) -> None:
    text, other, folder = tmp_path / "text", tmp_path / "other", tmp_path / "folder"
    text.write_text("not a database, but long enough to be looked at as one by SQLite" * 20)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    folder.mkdir()
    before = [text.read_bytes(), other.read_bytes()]
    for path, reason in ((text, "not a database"), (other, "another program"), (folder, "cannot be")):
        with pytest.raises(UserError, match=reason) as refused:
            Suggestions(path)
        assert str(path) in str(refused.value) and "\n" not in str(refused.value)
    assert [text.read_bytes(), other.read_bytes()] == before
    with pytest.raises(UserError, match="does not exist"):
        Suggestions(tmp_path / "nothing", create=False)
    assert not (tmp_path / "nothing").exists()
