"""`regard suggestions`: a line per correction, whatever is in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.suggestions import Suggestions

from .conftest import imported


@pytest.fixture
def file(tmp_path: Path) -> Path:
    store = Suggestions(tmp_path / "file.db")
    store.add("k", "fr", "en", "Un\tjour,\nune nuit.", "One day, one night.")
    store.add("k", "de", "en", "Ja.", "Yes.")
    return tmp_path / "file.db"


def test_suggestions_are_lines_of_a_table(file: Path, run_regard) -> None:
    out, err = run_regard("suggestions", file)
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[:4] for row in rows] == [
        ["Un jour, une nuit.", "One day, one night.", "fr", "en"],
        ["Ja.", "Yes.", "de", "en"],
    ]
    assert all(len(row) == 5 and row[4].endswith("+00:00") for row in rows) and err == ""
    assert run_regard("suggestions", file, "--from", "de", "--to", "en")[0].startswith("Ja.\tYes.")
    assert run_regard("suggestions", file, "--to", "fr") == ("", "regard: no suggestions\n")


def test_json_keeps_the_texts_as_they_were_sent(file: Path, run_regard) -> None:
    first, _ = json.loads(run_regard("suggestions", file, "--json")[0])
    assert first["text"] == "Un\tjour,\nune nuit." and first["source"] == "fr"


def test_a_file_that_is_none_is_one_line_and_not_made(tmp_path: Path, run_regard) -> None:
    _, err = run_regard("suggestions", tmp_path / "none", code=2)
    assert "does not exist; name the file of: regard serve --suggestions FILE" in err
    assert not (tmp_path / "none").exists()


def test_it_imports_no_torch(file: Path) -> None:
    assert "torch" not in imported("suggestions", str(file))[1]
