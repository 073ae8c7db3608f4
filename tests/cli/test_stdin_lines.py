"""Standard input line by line, through real pipes: nothing lost, late or out of order (R19)."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.cli.stdin_lines import CHUNK, answer_lines, arriving_lines, decode_line

ROOT = Path(__file__).parents[2]
SHOUT = """
import sys
from regard.cli.stdin_lines import answer_lines
from regard.cli.translate import writing_may_fail
sizes = []
def answer(texts, first):
    sizes.append(len(texts))
    return [text.upper().replace(chr(0x2028), " ") for text in texts]
with writing_may_fail():
    answer_lines(0, sys.stdout.buffer, answer, lambda message: print(message, file=sys.stderr))
    print(max(sizes, default=0), file=sys.stderr)
"""


def shouting(**options) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", SHOUT], env=environment, **{**pipes, **options})


@pytest.mark.timeout(30)
def test_whoever_writes_one_line_and_waits_is_answered():
    with shouting() as process:
        for text in ["un", "", "deux", "été", "x" * 100_000]:
            process.stdin.write(text.encode() + b"\n")
            process.stdin.flush()
            assert process.stdout.readline().decode() == text.upper() + "\n"
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait() == 0


@pytest.mark.timeout(30)
def test_an_answer_waits_neither_for_the_rest_of_a_line_nor_for_the_end():
    with shouting() as process:
        process.stdin.write(b"one\ntwo\nthr")
        process.stdin.flush()
        assert process.stdout.readline() + process.stdout.readline() == b"ONE\nTWO\n"
        process.stdin.write(b"ee\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"THREE\n"
        process.stdin.close()


def test_answers_come_at_once():
    with shouting() as process:
        process.stdin.write(b"warm\n")
        process.stdin.flush()
        process.stdout.readline()
        begin = time.perf_counter()
        for _ in range(200):
            process.stdin.write(b"line\n")
            process.stdin.flush()
            process.stdout.readline()
        assert time.perf_counter() - begin < 2
        process.stdin.close()


@pytest.mark.parametrize("last_end", [b"\n", b""], ids=["final newline", "no final newline"])
def test_as_many_lines_come_out_as_went_in(last_end: bytes):
    lines = [f"ligne {i} " + "mot " * (i % 40) if i % 7 else "" for i in range(30_001)]
    with shouting() as process:
        out, err = process.communicate("\n".join(lines).encode() + last_end)
    assert out.decode() == "".join(line.upper() + "\n" for line in lines)
    assert int(err) > 500, "a big input must be answered in big batches"


def test_a_file_is_answered_in_batches_of_thousands(tmp_path: Path):
    path = tmp_path / "lines.txt"
    path.write_text("une ligne de longueur moyenne, comme il y en a tant\n" * 20_000)
    with path.open() as stdin, shouting(stdin=stdin) as process:
        out, err = process.communicate()
    assert out.count(b"\n") == 20_000
    assert 2_000 < int(err) < 20_000


def test_odd_lines_are_lines_too():
    given = b"\xef\xbb\xbfbom\r\ncr\rin the middle\nnul\0here\n\xe2\x80\xa8sep\nvt\x0bff\x0cnel\xc2\x85\n\xff\xfebad\n   \nlast"
    with shouting() as process:
        out, err = process.communicate(given)
    assert out.decode().split("\n") == [
        "BOM", "CR\rIN THE MIDDLE", "NUL\0HERE", " SEP", "VT\x0bFF\x0cNEL\x85", "\ufffd\ufffdBAD", "   ", "LAST", ""
    ]  # fmt: skip
    assert err.decode().splitlines()[0] == ("line 6 is not valid UTF-8; what could not be read was replaced by U+FFFD")


@pytest.mark.parametrize(("given", "wanted"), [(b"", b""), (b"\n", b"\n"), (b"\n\n\n", b"\n\n\n"), (b"a", b"A\n")])
def test_hardly_anything(given: bytes, wanted: bytes):
    with shouting() as process:
        assert process.communicate(given)[0] == wanted


@pytest.mark.timeout(30)
def test_a_reader_that_leaves_ends_it_quietly():
    with shouting() as process:
        feeder = threading.Thread(target=feed_until_refused, args=(process.stdin,))
        feeder.start()
        assert process.stdout.readline() == b"LINE\n"
        process.stdout.close()
        assert process.wait() == 141
        assert process.stderr.read() == b""
        feeder.join()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_full_disk_is_said_once():
    with open("/dev/full", "wb") as full, shouting(stdout=full) as process:
        err = process.communicate(b"line\n" * 10)[1].decode()
    assert process.returncode == 1 and err.count("UserError: the output could not be written: No space left") == 1
    assert "Exception ignored" not in err


def feed_until_refused(stdin) -> None:
    with contextlib.suppress(BrokenPipeError):
        while True:
            stdin.write(b"line\n" * 1000)
    with contextlib.suppress(BrokenPipeError):
        stdin.close()


@settings(max_examples=50)
@given(
    st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\r", b"\n")), max_size=30),
    st.integers(0, 2**32),
    st.sampled_from([1, 3, 10, 1000]),
)
def test_lines_are_the_same_however_the_bytes_arrive(pieces: list[bytes], seed: int, most: int):
    content = b"\n".join(pieces)
    wanted = content.split(b"\n")
    if not wanted[-1]:
        wanted.pop()
    read, write = os.pipe()

    def trickle() -> None:
        chance, position = random.Random(seed), 0
        while position < len(content):
            position += os.write(write, content[position : position + chance.randint(1, most)])
        os.close(write)

    writer = threading.Thread(target=trickle)
    writer.start()
    got = [line for lines in arriving_lines(read) for line in lines]
    writer.join()
    os.close(read)
    assert got == wanted


def test_a_huge_line_takes_linear_time(tmp_path: Path):
    path = tmp_path / "huge"
    path.write_bytes(b"a" * (100 * CHUNK) + b"\nb\n")
    begin = time.perf_counter()
    with path.open("rb") as file:
        lengths = [len(line) for lines in arriving_lines(file.fileno()) for line in lines]
    assert lengths == [100 * CHUNK, 1]
    assert time.perf_counter() - begin < 2


def test_a_lost_line_is_a_bug_and_not_a_shift(tmp_path: Path):
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb\n")
    out = tmp_path / "out"
    lost = pytest.raises(RuntimeError, match="2 lines came in but 1 would go out")
    with path.open("rb") as file, out.open("wb") as stdout, lost:
        answer_lines(file.fileno(), stdout, lambda texts, first: texts[:1])
    assert out.read_bytes() == b""


def test_answers_are_told_the_number_of_their_first_line(tmp_path: Path):
    read, write = os.pipe()
    firsts: list[int] = []

    def answer(texts: list[str], first: int) -> list[str]:
        firsts.append(first)
        if first == 1:
            os.write(write, b"c\nd\n")
        else:
            os.close(write)
        return texts

    os.write(write, b"a\nb\n")
    with (tmp_path / "out").open("wb") as stdout:
        assert answer_lines(read, stdout, answer) == 4
    os.close(read)
    assert firsts == [1, 3]


def test_only_the_first_line_can_begin_with_a_byte_order_mark():
    assert decode_line(b"\xef\xbb\xbfa", 1, print) == "a"
    assert decode_line(b"\xef\xbb\xbfa", 2, print) == "\ufeffa"
