"""Reading the input of bulk work: the same rows from every format and compression, bad rows named, never fatal."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from regard.data.corpus.reading import LONGEST_LINE, raw_lines
from regard.errors import UserError
from regard.ray.input_files import Input, format_of

TEXTS = ["je suis étudiant.", "", "où est\u2028la gare ?", "Oui"]


def rows(location: object, column: str | None = None, key: str | None = None) -> list[tuple]:
    source = Input(str(location), column, key)
    files = source.files()
    found = [tuple(row) for file in files for row in source.rows(file)]
    assert [source.count(file) for file in files] == [len(list(source.rows(file))) for file in files]
    for start in range(len(found) + 1) if len(files) == 1 else ():
        assert [tuple(row) for row in source.rows(files[0], start)] == found[start:]
    return found


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress), (".zst", zstandard.compress)],
)
@pytest.mark.parametrize("url", ["", "file://", "local://"])
def test_text(tmp_path: Path, suffix: str, pack, url: str) -> None:
    content = b"\xef\xbb\xbf" + "\r\n".join(TEXTS).encode() + b"\ncaf\xe9\n"
    path = tmp_path / f"in.txt{suffix}"
    path.write_bytes(pack(content))
    found = rows(f"{url}{path}")
    assert [row[0] for row in found] == [*TEXTS, "caf\ufffd"]
    assert [bool(row[2]) for row in found] == [False] * 4 + [True] and "not valid UTF-8" in found[4][2]
    assert len(found) == sum(1 for _ in raw_lines(path))


def test_a_line_that_is_too_long_is_read_as_empty(tmp_path: Path) -> None:
    longest = b"a" * LONGEST_LINE
    (tmp_path / "in.txt").write_bytes(b"x\n" + longest + b"\n" + longest + b"b\n" + 3 * longest + b"\ny")
    found = rows(tmp_path / "in.txt")
    assert [len(row[0]) for row in found] == [1, LONGEST_LINE, 0, 0, 1]
    assert [row[2][:8] for row in found] == ["", "", "has more", "has more", ""]


def test_the_same_rows_from_every_structured_format(tmp_path: Path) -> None:
    table = [{"id": number, "fr": text} for number, text in enumerate(TEXTS, 10)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    (tmp_path / "a.ndjson.gz").write_bytes(gzip.compress((tmp_path / "a.jsonl").read_bytes()))
    written = io.StringIO()
    writer = csv.DictWriter(written, ["id", "fr"])
    writer.writeheader()
    writer.writerows(table)
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + written.getvalue().encode())
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(table), tmp_path / "a.parquet", row_group_size=3)
    wanted = [(text, number, "") for number, text in enumerate(TEXTS, 10)]
    for name in ("a.jsonl", "a.ndjson.gz", "a.parquet"):
        assert rows(tmp_path / name, "fr", "id") == wanted
    assert rows(tmp_path / "a.csv", "fr", "id") == [(text, str(key), "") for text, key, _ in wanted]
    usual = [(text, f"a.jsonl:{number}", "") for number, text in enumerate(TEXTS, 1)]
    assert rows(tmp_path / "a.jsonl", "fr") == usual


def test_bad_rows_are_named(tmp_path: Path) -> None:
    bad = [
        b"not json",
        b"[1]",
        b'{"text": 3}',
        b"{}",
        b'{"text": "caf\xe9"}',
        b'{"text": "' + b"x" * LONGEST_LINE + b'"}',
    ]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([b'{"text": "Oui"}', *bad, b"[" * 100_000, b'{"text": "Non"}']))
    found = rows(tmp_path / "a.jsonl")
    assert [row[0] for row in found] == ["Oui", *[""] * 7, "Non"]
    object_, text = "is not a JSON object", "has no text in column text"
    assert [row[2] for row in found[:6]] == ["", object_, object_, text, text, object_]
    assert found[6][2].startswith("has more than 1,048,576 bytes") and found[7][2] == object_
    assert [row[1] for row in found] == [f"a.jsonl:{number}" for number in range(1, 10)]
    (tmp_path / "a.csv").write_bytes(b'text,id\r\n"a\r\nb",1\r\ncaf\xe9,2\r\n\r\nc\r\n')
    assert rows(tmp_path / "a.csv") == [
        ("a\r\nb", "a.csv:1", ""),
        ("caf\ufffd", "a.csv:2", "is not valid UTF-8; invalid bytes were replaced by U+FFFD"),
        ("", "a.csv:3", "has no text in column text"),
        ("c", "a.csv:4", ""),
    ]
    assert rows(tmp_path / "a.csv", key="id")[3] == ("", "a.csv:4", "has no key in column id")


def test_folders_globs_and_their_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "sub/c.txt", "_tmp/x.txt", ".x.txt", "d.csv", "sub/e.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text\n")

    def names(pattern: str) -> list[str]:
        return [file.name for file in Input(f"{tmp_path}{pattern}").files()]

    assert names("/*.txt") == ["a.txt", "b.txt"]
    assert names("/*/*.txt") == ["sub/c.txt"]
    assert names("/sub") == ["c.txt", "e.csv"]
    assert names("/[ab].txt") == ["a.txt", "b.txt"]
    assert names("") == ["a.txt", "b.txt", "d.csv", "sub/c.txt", "sub/e.csv"]
    assert [file.name for file in Input(f"local://{tmp_path}/*.csv").files()] == ["d.csv"]
    (tmp_path / "[ab].txt").write_text("its name is a pattern\n")
    assert names("/[ab].txt") == ["[ab].txt"]


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    (tmp_path / "b.csv").write_text("id,fr\n1,x\n")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(bytes(range(256)) * 99)[:-30])
    (tmp_path / "no.parquet").write_text("x")
    (tmp_path / "empty").mkdir()

    def refused(words: str, name: str, **columns: str) -> None:
        with pytest.raises(UserError, match=words) as caught:
            source = Input(f"{tmp_path}/{name}", **columns)
            files = source.files()
            source.format(files)
            [source.count(file) for file in files]
        assert "\n" not in str(caught.value)

    refused("no.txt does not exist", "no.txt")
    refused("no files there", "empty")
    refused("no files there", "*.md")
    refused(r"several formats, b.csv \(csv\) and a.txt \(text\)", "[ab].*")
    refused("text files have no columns", "a.txt", column="fr")
    refused("b.csv: has no column text but id, fr; name one with --column", "b.csv")
    refused("has no column nr", "b.csv", column="fr", key="nr")
    refused(r"cut.txt.gz(, after line \d+)?: cannot be read", "cut.txt.gz")
    refused("cannot be read as parquet", "no.parquet")
    with pytest.raises(UserError, match="nosuch://x"):
        Input("nosuch://x/y.txt").files()


def test_formats_by_name() -> None:
    assert [format_of(name) for name in ("a", "a.gz", "b.jsonl.zst", "c.csv", "s3://d/e.parquet", "f.fr.xz")] == [
        "text", "text", "jsonl", "csv", "parquet", "text",
    ]  # fmt: skip
