from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.data.corpus import read_lines, read_pairs, reading
from regard.errors import UserError

zstandard = pytest.importorskip("zstandard")

LINES = ["un", "", "deux\u2028même ligne", " trois\x0b\x85 ", "日本\ttab"]
WRITERS = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.compress(data[:9]) + zstandard.compress(data[9:]),  # two frames are one file
}


def write(path: Path, text: str) -> Path:
    path.write_bytes(WRITERS[path.suffix if path.suffix in WRITERS else ""](text.encode()))
    return path


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_lines(tmp_path: Path, suffix: str, end: str, last: bool) -> None:
    file = write(tmp_path / f"text.fr{suffix}", "\ufeff" + end.join(LINES) + end * last)
    assert list(read_lines(file)) == LINES


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))))
@pytest.mark.parametrize("suffix", WRITERS)
def test_any_lines(tmp_path: Path, suffix: str, lines: list[str]) -> None:
    file = write(tmp_path / f"any{suffix}", "".join(line + "\n" for line in lines))
    if lines and lines[0].startswith("\ufeff"):
        lines[0] = lines[0][1:]
    assert list(read_lines(str(file))) == lines


@pytest.mark.parametrize("suffix", WRITERS)
def test_columns(tmp_path: Path, suffix: str) -> None:
    file = write(tmp_path / f"pairs.tsv{suffix}", "Go.\tVa !\tnote\nHi.\tSalut.\n")
    assert list(read_lines(file)) == ["Go.", "Hi."]
    assert list(read_lines(f"{file}#2")) == ["Va !", "Salut."]
    assert list(read_pairs([file], [file])) == [("Go.", "Va !"), ("Hi.", "Salut.")] == list(read_pairs([file], []))
    assert list(read_pairs([f"{file}#2"], [f"{file}#1"])) == [("Va !", "Go."), ("Salut.", "Hi.")]
    with pytest.raises(UserError, match=r"pairs.tsv.*, line 2: has 2 column\(s\), but column 3 is wanted"):
        list(read_lines(f"{file}#3"))


def test_several_files(tmp_path: Path) -> None:
    sources = [write(tmp_path / f"{i}.fr", f"s{i}\nS{i}\n") for i in range(2)]
    targets = [write(tmp_path / f"{i}.en", f"t{i}\nT{i}\n") for i in range(2)]
    assert list(read_pairs(sources, targets)) == [("s0", "t0"), ("S0", "T0"), ("s1", "t1"), ("S1", "T1")]
    with pytest.raises(UserError, match="2 source files but 1 target files"):
        read_pairs(sources, targets[:1])
    with pytest.raises(UserError, match="no files"):
        read_pairs([], [])


@pytest.mark.parametrize(("left", "right"), [(3, 5), (5, 3), (0, 2), (4, 3)])
def test_unequal_line_counts(tmp_path: Path, left: int, right: int) -> None:
    source, target = write(tmp_path / "a.fr", "x\n" * left), write(tmp_path / "a.en", "y\n" * right)
    with pytest.raises(UserError, match=rf"a\.fr has {left} lines but .*a\.en has {right};"):
        list(read_pairs([source], [target]))


def test_empty(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.fr", ""), write(tmp_path / "a.en", "")
    with pytest.raises(UserError, match="empty"):
        list(read_pairs([source], [target]))


@pytest.mark.parametrize("suffix", WRITERS)
def test_invalid_utf8_names_the_line(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"latin{suffix}"
    file.write_bytes(WRITERS[suffix](b"ok\nok\ncaf" + b"\xe9 noir\n"))
    lines = read_lines(file)
    assert [next(lines), next(lines)] == ["ok", "ok"]
    with pytest.raises(UserError, match=r"latin.*, line 3: is not text in UTF-8 \(byte 4 is 0xe9\)"):
        next(lines)


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("damage", ["cut", "garbage", "flip"])
def test_damaged_archives(tmp_path: Path, suffix: str, damage: str) -> None:
    file = write(tmp_path / f"text{suffix}", "".join(f"line {i * i}\n" for i in range(5000)))
    content = bytearray(file.read_bytes())
    if damage == "flip":
        content[2 if suffix == ".zst" else len(content) // 2] ^= 0xFF  # zstandard files carry no checksum by default
    file.write_bytes(b"no archive at all" if damage == "garbage" else content[: len(content) - 5 * (damage == "cut")])
    with pytest.raises(UserError, match=f"text{suffix}"):
        list(read_lines(file))


def test_missing_files(tmp_path: Path) -> None:
    write(tmp_path / "train.fr.gz", "x\n")
    with pytest.raises(UserError, match=r"train\.fr\.xz does not exist; did you mean 'train\.fr\.gz'"):
        read_lines(tmp_path / "train.fr.xz")
    with pytest.raises(UserError, match="nor does the folder"):
        read_pairs([tmp_path / "no" / "train.fr"], [tmp_path / "train.fr.gz"])
    with pytest.raises(UserError, match="is a folder"):
        read_lines(tmp_path)


def test_files_by_turns_end_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BLOCK", 10)
    counts = (1000, 250, 7)
    files = [write(tmp_path / f"{n}.tsv", "".join(f"s{n} {i:03}\tt{n} {i:03}\n" for i in range(n))) for n in counts]
    apart, mixed = list(read_pairs(files, [])), list(read_pairs(files, [], mixed=True))
    assert sorted(apart) == sorted(mixed) and mixed == list(read_pairs(files, [], mixed=True))
    for count in counts:  # each file in its own order,
        assert [p for p in mixed if p[0].startswith(f"s{count} ")] == [
            p for p in apart if p[0].startswith(f"s{count} ")
        ]
    for tenth in range(1, 10):  # and all equally far at any time
        begun = mixed[: tenth * len(mixed) // 10]
        assert abs(sum(p[0].startswith("s250 ") for p in begun) - 25 * tenth) <= 15
    short = write(tmp_path / "short.fr", "only\none\nmore\n"), write(tmp_path / "short.en", "only\none\n")
    with pytest.raises(UserError, match="short.fr has 3 lines but .*short.en has 2"):
        list(read_pairs([files[0], short[0]], [files[0], short[1]], mixed=True))


@pytest.mark.parametrize("suffix", WRITERS)
def test_more_lines_than(tmp_path: Path, suffix: str) -> None:
    files = [write(tmp_path / f"{i}.tsv{suffix}", "a\tb\n" * 5) for i in range(2)]
    assert reading.has_more_lines([f"{files[0]}#2", files[1]], 9) and not reading.has_more_lines(files, 10)
    assert not reading.has_more_lines([], 0)
