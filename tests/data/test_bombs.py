"""Small files that expand to a lot: refused in one line or read as a stream, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import tarfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from regard.child_process import child_environment, python_command
from regard.cli import stdin_lines
from regard.data import compressed
from regard.data.bounded import read_bytes
from regard.data.corpus import hold_out, read_lines, read_pairs, reading
from regard.data.corpus.filters import Filters
from regard.data.tokenizer import subword
from regard.errors import UserError

zstandard = pytest.importorskip("zstandard")

EXPANDED = 500_000_000
BLOCK = 10_000_000
ALLOWED = 150_000_000
"""Bytes that a child may take beyond what it has before it reads."""

CHILD = """
import json, sys
from pathlib import Path
from regard.errors import UserError
import gzip, lzma, numpy, zstandard, regard.bulk, regard.data.corpus.preparing
import regard.data.format.plain_lines, regard.data.format.labelled_lines, regard.data.format.running_text
import regard.data.format.spoken, regard.data.input.series, regard.data.vectors.file
from regard.config import Data
path = Path(sys.argv[1])
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024
def told(reader):
    before, said, found = peak(), "", None
    try:
        found = eval(reader)
    except UserError as error:
        said = str(error)
    return peak() - before, said, found
print(json.dumps([told(reader) for reader in sys.argv[2:]]))
"""

READERS = {
    "corpus": "sum(1 for _ in regard.data.corpus.read_pairs([path], [path]))",
    "lines": "sum(1 for _ in regard.data.corpus.read_lines(path))",
    "held out": "len(regard.data.corpus.preparing.held_out("
    "Data(source=[str(path)], target=[str(path)]), path.parent / 'run', lambda text: None)[0])",
    "validation": "len(regard.data.corpus.preparing.named_pairs("
    "Data(valid_source=[str(path)], valid_target=[str(path)])))",
    "bulk": "regard.bulk.Shards(path, path.parent / 'out', {}).plan.lines",
    "vectors": "len(regard.data.vectors.file.read_vectors(path))",
    "monolingual": "len(regard.data.format.plain_lines.PlainLines().read([path], 'train'))",
    "labelled": "len(regard.data.format.labelled_lines.LabelledLines().read([path], 'train'))",
    "running text": "len(regard.data.format.running_text.RunningText().read([path], 'train')[0].target)",
    "table": "len(regard.data.input.series.read_table(path).values)",
    "spoken": "len(regard.data.format.spoken.Spoken().read([path], 'train'))",
}
BY_LINE = [reader for reader in READERS if reader not in ("running text", "spoken")]
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")


class Told(NamedTuple):
    """What a reader took and said, and what came of it."""

    grown: int
    said: str
    found: int | None


def in_child(path: Path, *readers: str) -> dict[str, Told]:
    command = python_command("-c", CHILD, str(path), *(READERS[reader] for reader in readers))
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return {reader: Told(*told) for reader, told in zip(readers, json.loads(done.stdout), strict=True)}


def zst_stream(data: bytes, times: int) -> bytes:
    """In one frame; of the others, streams after one another are one file."""
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    return b"".join(packer.compress(data) for _ in range(times)) + packer.flush()


PACKERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gz": lambda data, times: gzip.compress(data) * times,
    "xz": lambda data, times: lzma.compress(data, preset=0) * times,
    "bz2": lambda data, times: bz2.compress(data) * times,
    "zst": zst_stream,
}


def bomb(folder: Path, suffix: str, piece: bytes) -> tuple[Path, int]:
    """A small file that says one thing again and again, and how often."""
    file, copies = folder / f"text.{suffix}", BLOCK // len(piece)
    file.write_bytes(PACKERS[suffix](piece * copies, EXPANDED // BLOCK))
    assert file.stat().st_size < 2_000_000
    return file, copies * (EXPANDED // BLOCK)


@needs_proc
@pytest.mark.parametrize(
    ("suffix", "readers"), [("zst", BY_LINE), ("gz", ["corpus", "bulk"]), ("xz", ["corpus", "bulk"])]
)
def test_one_line_of_a_bomb_is_refused(suffix: str, readers: list[str], tmp_path: Path) -> None:
    file, _ = bomb(tmp_path, suffix, b"a")
    for reader, told in in_child(file, *readers).items():
        limit = "131,072" if reader == "vectors" else "1,048,576"
        assert f"{file}, line 1: has more than {limit} bytes" in told.said and "\n" not in told.said
        assert told.grown < ALLOWED, reader


@needs_proc
@pytest.mark.parametrize(("suffix", "readers"), [("gz", ["lines"]), ("xz", ["lines"]), ("zst", ["corpus", "bulk"])])
def test_what_shrinks_well_is_read_as_a_stream(suffix: str, readers: list[str], tmp_path: Path) -> None:
    file, lines = bomb(tmp_path, suffix, b"the same line " * 300 + b"again\n")
    for reader, told in in_child(file, *readers).items():
        assert (told.said, told.found) == ("", lines)
        assert told.grown < ALLOWED, reader


@needs_proc
@pytest.mark.parametrize("piece", [b"ab\n", b"\n"])
def test_what_is_held_in_memory_is_bounded_by_the_size_of_the_file(piece: bytes, tmp_path: Path) -> None:
    file, _ = bomb(tmp_path, "zst", piece)
    for reader, told in in_child(file, "validation", "monolingual", "labelled", "running text", "table").items():
        assert str(file) in told.said
        assert reader == "table" or "unpacks to more than 50 MB" in told.said and "unpack it first" in told.said
        assert told.grown < ALLOWED, reader


@needs_proc
def test_held_out_pairs_of_long_lines_take_little_memory(tmp_path: Path) -> None:
    """Different lines, every other one just below the limit of a line."""
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    lines = (b"%d " % i + b"a" * 900_000 + b"\n" + b"%d short\n" % i for i in range(300))
    (tmp_path / "text.zst").write_bytes(b"".join(map(packer.compress, lines)) + packer.flush())
    told = in_child(tmp_path / "text.zst", "held out")["held out"]
    assert (told.said, told.found) == ("", 30) and told.grown < ALLOWED


@needs_proc
@pytest.mark.parametrize(
    "suffix", ["gz", *(pytest.param(one, marks=pytest.mark.slow) for one in PACKERS if one != "gz")]
)
def test_a_tar_with_a_header_of_half_a_gigabyte(suffix: str, tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, EXPANDED
    begin, zeros = header.tobuf(tarfile.USTAR_FORMAT), bytes(BLOCK)
    file = tmp_path / "digits.tar"
    file.write_bytes(PACKERS[suffix](begin, 1) + PACKERS[suffix](zeros, EXPANDED // BLOCK))
    told = in_child(file, "spoken")["spoken"]
    assert f"{file}: unpacks to more than 50 MB" in told.said and told.grown < ALLOWED


# ---------------------------------------------------------------------------------------------------------- in process


@pytest.mark.parametrize("suffix", ["txt", *PACKERS])
def test_the_longest_line_is_read_and_a_longer_one_named(suffix: str, tmp_path: Path) -> None:
    file, longest = tmp_path / f"text.{suffix}", b"b" * reading.LONGEST_LINE
    pack = PACKERS.get(suffix, lambda data, times: data)
    for end in (b"\n", b""):
        file.write_bytes(pack(b"one\n" + longest + end, 1))
        assert [len(line) for line in read_lines(file)] == [3, reading.LONGEST_LINE]
        file.write_bytes(pack(b"one\n" + longest + b"b" + end, 1))
        with pytest.raises(UserError, match=rf"text\.{suffix}, line 2: has more than 1,048,576 bytes"):
            list(read_lines(file))


@pytest.mark.parametrize("suffix", ["xz", "zst"])
def test_a_window_that_is_too_large_is_refused(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"text.{suffix}"
    if suffix == "xz":
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 28}]
        packer = lzma.LZMACompressor(filters=filters)
        file.write_bytes(packer.compress(b"text\n") + packer.flush())
    else:
        settings = zstandard.ZstdCompressionParameters(window_log=30)
        packer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
        file.write_bytes(packer.compress(b"text\n") + packer.flush())
    with pytest.raises(UserError, match=rf"text\.{suffix}: decompressing it takes more than 1\d\d MB of memory"):
        list(read_lines(file))


@pytest.mark.parametrize("preset", [0, 9, 9 | lzma.PRESET_EXTREME])
def test_what_the_tools_write_by_themselves_is_read(preset: int, tmp_path: Path) -> None:
    (tmp_path / "a.xz").write_bytes(lzma.compress(b"one\n", preset=preset) + b"\0" * 8 + lzma.compress(b"two\n"))
    assert list(read_lines(tmp_path / "a.xz")) == ["one", "two"]
    (tmp_path / "a.zst").write_bytes(
        zstandard.ZstdCompressor(level=22).compress(b"one\n") + zstandard.compress(b"two\n")
    )
    assert list(read_lines(tmp_path / "a.zst")) == ["one", "two"]
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    assert list(read_lines(tmp_path / "a.gz")) == ["one", "two"]


def test_kept_lines_count_with_what_they_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_IN_MEMORY", 1000)
    file = tmp_path / "a.txt"
    file.write_bytes(b"x\n" * 9)
    assert len(list(read_lines(file, kept=True))) == 9
    file.write_bytes(b"x\n" * 10)
    assert len(list(read_lines(file))) == 10
    for read in (lambda: read_lines(file, kept=True), lambda: read_pairs([file], [file], kept=True)):
        with pytest.raises(UserError, match=r"a\.txt, line 10: holds more than fits in memory"):
            list(read())


@pytest.mark.parametrize("suffix", PACKERS)
def test_whole_files_expand_in_proportion(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "ALWAYS", 1000)
    file, content = tmp_path / f"a.{suffix}", os.urandom(3000)
    file.write_bytes(PACKERS[suffix](content, 1))
    assert read_bytes(file, 10_000, 10_000) == content
    with pytest.raises(UserError, match="unpacks to more than"):
        read_bytes(file, 10_000, 2999)
    file.write_bytes(PACKERS[suffix](bytes(1_000_000), 1))
    with pytest.raises(UserError, match="unpack it first"):
        read_bytes(file, 10_000, 10_000_000)


def test_a_chunk_of_a_pack_holds_no_more_text_than_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.data.corpus import pack

    monkeypatch.setattr(pack, "_CHUNK_TEXT", 100)
    pairs = [("a" * 30, "b" * 30)] * 7
    assert [len(chunk) for chunk in pack.chunks(iter(pairs), 0)] == [2, 2, 2, 1]
    assert [len(chunk) for chunk in pack.chunks(iter(pairs), 3)] == [2, 1, 2, 1, 1]


def test_endless_lines_are_dropped_before_they_are_tokenised() -> None:
    filters = Filters(max_length=200)
    pairs = [("une phrase", "a sentence"), ("a" * 6400, "b"), ("c", "d" * 6401)]
    assert filters.by_size(pairs) == pairs[:2]
    assert filters.dropped["endless"] == 1


def test_files_by_turns_are_not_collected_in_blocks(tmp_path: Path) -> None:
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).write_text("x\ty\n" * 2000 + "no column\n")
    pairs = read_pairs([tmp_path / "a.tsv", tmp_path / "b.tsv"], [], mixed=True)
    read = 0
    with pytest.raises(UserError, match="line 2001"):
        for _ in pairs:
            read += 1
    assert read >= 2000, "pairs before the mistake were held back"


def test_few_pairs_are_kept_to_choose_from() -> None:
    """50 pairs a group, 400 groups: as many groups as are wanted would hold 2,000 of them."""

    class Source(str):
        """A text that can be counted while it is alive."""

    alive: weakref.WeakSet[Source] = weakref.WeakSet()
    most = 0

    def pairs() -> Iterator[tuple[str, str]]:
        nonlocal most
        for i in range(20_000):
            alive.add(source := Source(f"source {i}"))
            most = max(most, len(alive))
            yield source, f"target {i % 400}"

    (chosen,) = hold_out.choose(pairs(), [40])
    assert len(chosen) == 40 and most < 400


def test_a_sample_of_text_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subword, "_MOST_TEXT", 1000)
    lines = [f"{i:04} " + "x" * (i % 90) for i in range(500)]
    chosen = subword._choose(lines, 100, 1)
    assert 10 < len(chosen) <= 100 and sum(map(len, chosen)) <= 1000
    assert max(chosen) > "0250", "the end of the stream is sampled, too"


def test_an_endless_line_of_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin_lines, "LONGEST_LINE", 1 << 20)
    reader, writer = os.pipe()
    if not os.fork():
        os.close(reader)
        try:
            with open(writer, "wb") as stream:
                stream.write(b"one\n" + b"a" * 3_000_000)
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb"), pytest.raises(UserError, match="line 2 has more than 1,048,576 bytes"):
        list(stdin_lines.arriving_lines(reader))
    os.wait()


def test_streams_close_their_files(tmp_path: Path) -> None:
    for suffix, pack in PACKERS.items():
        (tmp_path / f"a.{suffix}").write_bytes(pack(b"one\ntwo\n", 1))
        lines = read_lines(tmp_path / f"a.{suffix}")
        next(lines)
        lines.close()  # type: ignore[attr-defined]
    open_files = [
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.islink(f"/proc/self/fd/{fd}")
    ]
    assert not [name for name in open_files if str(tmp_path) in name]
    assert isinstance(compressed.open_expanded(tmp_path / "a.zst"), io.BufferedReader)
