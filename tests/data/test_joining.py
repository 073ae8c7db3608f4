"""Pairs of two languages through a third."""

from __future__ import annotations

import gzip

import pytest

from regard.data.corpus.joining import join_pairs


def test_translations_of_the_same_sentence_are_paired_once():
    first = [("a", "1"), ("b", "2"), ("a", "1"), ("a", "11"), ("c", "3")]
    second = [("c", "C"), ("a", "A"), ("x", "X"), ("a", "AA"), ("a", "A")]
    assert list(join_pairs(first, second, most=9)) == [
        ("3", "C"), ("1", "A"), ("11", "A"), ("1", "AA"), ("11", "AA"),
    ]  # fmt: skip
    assert list(join_pairs(first, second)) == [("3", "C"), ("1", "A"), ("11", "A")]


def test_the_command_writes_pairs(tmp_path, run_regard):
    for name, rows in (("en-de.tsv", "yes\tja\nno\tnein\n"), ("en-fa.tsv", "no\tنه\nwhy\tچرا\n")):
        (tmp_path / name).write_text(rows, encoding="utf-8")
    files = [str(tmp_path / name) for name in ("en-de.tsv", "en-fa.tsv")]
    output = tmp_path / "de-fa.tsv.gz"
    out, err = run_regard("data", "join", *files, "-o", output)
    assert "1 pairs" in err and not out
    assert gzip.decompress(output.read_bytes()).decode() == "nein\tنه\n"


@pytest.mark.parametrize(
    "second, output, why",
    [("other.tsv", "new.tsv", "share no sentence"), ("en-de.tsv", "en-de.tsv", "choose another file"),
     ("lines.txt", "new.tsv", "reads a .tsv"), ("other.tsv", "new.txt", "go into a .tsv")],
)  # fmt: skip
def test_mistakes_give_one_line_and_write_nothing(tmp_path, run_regard, second, output, why):
    for name, rows in (("en-de.tsv", "yes\tja\n"), ("other.tsv", "why\tچرا\n"), ("lines.txt", "why\n")):
        (tmp_path / name).write_text(rows, encoding="utf-8")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    words = [tmp_path / name for name in ("en-de.tsv", second)]
    _, err = run_regard("data", "join", *words, "-o", tmp_path / output, code=2)
    assert why in err and len(err.strip().splitlines()) == 1
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
